// The prestarted runner: used for the first job, without any secret until then, and running only while it is useful.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { WorkerLogs } from '../../../../src/kinds/endpoint/workers/logs.ts';
import { endpointSpec } from '../../../../src/kinds/endpoint/spec.ts';
import {
  RunnerPool,
  runnerIdleMs,
} from '../../../../src/kinds/endpoint/workers/prestarted-runner.ts';
import { ManualClock } from '../../../../src/runtime/clock.ts';
import { handlerFile, startEndpoints } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';

const onLinux = { skip: process.platform !== 'linux' && 'reads /proc' };

test(
  'the first job of a module endpoint runs in the prestarted runner, with its own env, folder and log',
  onLinux,
  async (t) => {
    const server = await startEndpoints(t);
    assert.deepEqual(prestarted(), [], 'no endpoint, no runner');
    const folder = tempFolder(t);
    const module = join(folder, 'tell.mjs');
    writeFileSync(
      module,
      `export default () => {
       console.log('model is', process.env.MODEL);
       return { pid: process.pid, cwd: process.cwd(), model: process.env.MODEL };
     };`,
    );
    const fields = { recipe: { module, cwd: folder }, env: { MODEL: 'small' } };
    await server.save('quick', fields);
    const runner = await until('a runner is prestarted', onlyPrestarted);
    assert.doesNotMatch(environmentOf(runner), /RUNPOD|MODEL/, 'it knows no endpoint');
    const job = await server.ended('quick', await server.run('quick', {}));
    assert.deepEqual(job.output, { pid: runner, cwd: folder, model: 'small' });
    const log = await server.call('GET', '/api/endpoints/quick/log?tail=20');
    const lines = log.body.lines as { line: string; jobId?: string }[];
    assert.ok(lines.some(({ line, jobId }) => line === 'model is small' && jobId === job.id));

    const next = await until('another runner is prestarted', onlyPrestarted);
    assert.notEqual(next, runner);
    await server.save('plain', { ...fields, spareRunner: false });
    const plain = await server.ended('plain', await server.run('plain', {}));
    const { pid } = plain.output as { pid: number };
    assert.notEqual(pid, next, 'switched off');
    assert.match(environmentOf(pid), /RUNPOD_ENDPOINT_ID=plain/);

    await server.call('DELETE', '/api/endpoints/quick');
    await until('nobody needs it any more', () => prestarted().length === 0);
    await server.save('quick', fields);
    await until('it is back', () => prestarted().length === 1);
    await server.stop();
    await until('it ends with the server', () => prestarted().length === 0);
  },
);

test(
  'a prestarted runner exits when endpoints are unused, and skips endpoints with startup options',
  onLinux,
  async (t) => {
    const clock = new ManualClock();
    const folder = tempFolder(t);
    const logs = new WorkerLogs(folder, clock);
    const secret = (name: string) => (name === 'PATH' ? process.env.PATH : undefined);
    const runner = new RunnerPool({ clock, logs, folder, home: folder, secret });
    t.after(() => runner.end());
    const row = (fields: object) => ({
      id: 'a',
      owner: 'me',
      spec: endpointSpec.parse({ recipe: { module: handlerFile }, ...fields }),
      version: 1,
      source: 'api' as const,
      createdAt: 0,
      updatedAt: 0,
    });
    for (const fields of [
      { recipe: { module: handlerFile, memoryMb: 64 } },
      { env: { NODE_OPTIONS: '--expose-gc' } },
      { recipe: { perJob: ['true'] } },
      { maxWorkers: 0 },
      { spareRunner: false },
    ]) {
      runner.adjust([row(fields)]);
      assert.deepEqual(prestarted(), [], JSON.stringify(fields));
    }
    runner.adjust([row({})]);
    const first = await until('a runner is prestarted', onlyPrestarted);
    clock.jump(runnerIdleMs);
    runner.adjust([row({})]);
    await until('it ends', () => !prestarted().includes(first));
    runner.adjust([row({})]);
    assert.deepEqual(prestarted(), [], 'it does not return on its own');
    runner.markUsed();
    runner.adjust([row({})]);
    await until('until endpoints are used again', () => prestarted().length === 1);
    assert.equal(readdirSync(join(folder, 'logs/.spare')).length, 1, 'no log is left behind');
  },
);

/** Runners of this process that have no endpoint yet. */
function prestarted(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const status = read(`/proc/${pid}/stat`);
      const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
      if (fields[0] === 'Z' || Number(fields[1]) !== process.pid) return false;
      return read(`/proc/${pid}/cmdline`).includes('runner-main') && waits(pid);
    });
}

function onlyPrestarted(): number | undefined {
  const found = prestarted();
  return found.length === 1 ? found[0] : undefined;
}

/** A runner that became a worker has a worker log. */
function waits(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/fd/1`).includes('/.spare/');
  } catch {
    return false;
  }
}

const environmentOf = (pid: number): string => read(`/proc/${pid}/environ`);

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
