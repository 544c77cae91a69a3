// The runner that is started ahead: used for the first job, ignorant of every secret until then, and there only while it
// is of use.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { WorkerLogs } from '../../../src/kinds/endpoint/logs.ts';
import { endpointSpec } from '../../../src/kinds/endpoint/spec.ts';
import { SpareRunner, spareIdleMs } from '../../../src/kinds/endpoint/spare.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const onLinux = { skip: process.platform !== 'linux' && 'reads /proc' };

test(
  'the first job of a module endpoint runs in the spare, with its own env, folder and log',
  onLinux,
  async (t) => {
    const server = await startEndpoints(t);
    assert.deepEqual(spares(), [], 'no endpoint, no spare');
    const folder = tempFolder(t);
    const module = join(folder, 'tell.mjs');
    writeFileSync(
      module,
      `export default () => {
       console.log('told by', process.env.MODEL);
       return { pid: process.pid, cwd: process.cwd(), model: process.env.MODEL };
     };`,
    );
    const fields = { recipe: { module, cwd: folder }, env: { MODEL: 'small' } };
    await server.save('quick', fields);
    const spare = await until('there is a spare', onlySpare);
    assert.doesNotMatch(environmentOf(spare), /RUNPOD|MODEL/, 'it knows no endpoint');
    const job = await server.ended('quick', await server.run('quick', {}));
    assert.deepEqual(job.output, { pid: spare, cwd: folder, model: 'small' });
    const log = await server.call('GET', '/api/endpoints/quick/log?tail=20');
    const lines = log.body.lines as { line: string; jobId?: string }[];
    assert.ok(lines.some(({ line, jobId }) => line === 'told by small' && jobId === job.id));

    const next = await until('there is another one', onlySpare);
    assert.notEqual(next, spare);
    await server.save('plain', { ...fields, spareRunner: false });
    const plain = await server.ended('plain', await server.run('plain', {}));
    const { pid } = plain.output as { pid: number };
    assert.notEqual(pid, next, 'switched off');
    assert.match(environmentOf(pid), /RUNPOD_ENDPOINT_ID=plain/);

    await server.call('DELETE', '/api/endpoints/quick');
    await until('nobody needs it any more', () => spares().length === 0);
    await server.save('quick', fields);
    await until('it is back', () => spares().length === 1);
    await server.stop();
    await until('it ends with the server', () => spares().length === 0);
  },
);

test(
  'a spare ends when nobody uses endpoints, and never serves what needs a start of its own',
  onLinux,
  async (t) => {
    const clock = new ManualClock();
    const folder = tempFolder(t);
    const logs = new WorkerLogs(folder, clock);
    const secret = (name: string) => (name === 'PATH' ? process.env.PATH : undefined);
    const spare = new SpareRunner({ clock, logs, folder, home: folder, secret });
    t.after(() => spare.end());
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
      { workersMax: 0 },
      { spareRunner: false },
    ]) {
      spare.keep([row(fields)]);
      assert.deepEqual(spares(), [], JSON.stringify(fields));
    }
    spare.keep([row({})]);
    const first = await until('there is a spare', onlySpare);
    clock.jump(spareIdleMs);
    spare.keep([row({})]);
    await until('it ends', () => !spares().includes(first));
    spare.keep([row({})]);
    assert.deepEqual(spares(), [], 'and does not come back by itself');
    spare.touch();
    spare.keep([row({})]);
    await until('until endpoints are used again', () => spares().length === 1);
    assert.equal(readdirSync(join(folder, 'logs/.spare')).length, 1, 'no log is left behind');
  },
);

/** Runners of this process that have no endpoint yet. */
function spares(): number[] {
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

function onlySpare(): number | undefined {
  const found = spares();
  return found.length === 1 ? found[0] : undefined;
}

/** One that became a worker has the log of one. */
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
