// The container recipe with a stand-in for docker on PATH: its command line, secrets off it, and no container left behind.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isAlive } from '../../../src/kinds/endpoint/process.ts';
import { startEndpoints } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const worker = join(import.meta.dirname, '../../fixtures/endpoint/worker.py');

test('an image is run as docker would be told by hand, and removed with its worker', async (t) => {
  const folder = fakeEngine(t);
  const server = await startEndpoints(t);
  const recipe = { image: 'me/worker:1', args: ['--fast'] };
  await server.save('boxed', { recipe, env: { HF_TOKEN: 'secret' }, workersMax: 1, stopMs: 500 });
  const job = await server.ended('boxed', await server.run('boxed', { n: 1 }));
  assert.equal(job.status, 'COMPLETED', JSON.stringify(job));
  const id = job.workerId as string;
  const [run] = calls(folder).filter((line) => line.startsWith('run '));
  assert.match(run!, new RegExp(`--name=errand-${id} --label=errand.endpoint=boxed `));
  assert.match(run!, /^run --rm --init --network=host .* me\/worker:1 --fast$/);
  assert.match(run!, /--env=HF_TOKEN .*--env=RUNPOD_AI_API_KEY /, 'names, not values');
  assert.doesNotMatch(run!, /secret|--env=PATH|http:/);

  // Somebody kills the client: the container is taken away, and the next job gets another one.
  process.kill(pidOf(folder), 'SIGKILL');
  await until('it is removed', () => calls(folder).includes(`rm --force errand-${id}`));
  const again = await server.ended('boxed', await server.run('boxed', { n: 2 }));
  assert.notEqual(again.workerId, id);
  const pid = pidOf(folder);
  await server.call('DELETE', '/api/endpoints/boxed');
  const other = `rm --force errand-${again.workerId as string}`;
  await until('this one too', () => calls(folder).includes(other) && !isAlive(pid, null));
});

test('without an engine the endpoint is made and says plainly why nothing runs', async (t) => {
  const empty = tempFolder(t);
  setPath(t, empty);
  const server = await startEndpoints(t);
  await server.save('boxed', { recipe: { image: 'me/worker:1' } });
  const id = await server.run('boxed', {});
  const text = await until('it is diagnosed', async () => {
    const { body } = await server.call('GET', `/api/jobs/${id}`);
    return /no container engine/.test(String(body.diagnosis)) ? String(body.diagnosis) : undefined;
  });
  assert.match(text, /image me\/worker:1.*docker: not installed; podman: not installed/);
  const shown = await server.call('GET', '/api/endpoints/boxed');
  assert.match(shown.body.trouble as string, /Start docker or podman; the jobs wait/);
  assert.equal((await server.call('GET', `/v2/boxed/status/${id}`)).body.status, 'IN_QUEUE');
});

/** `docker` that writes down how it was called and runs the test worker instead of a container. */
function fakeEngine(t: TestContext): string {
  const folder = tempFolder(t);
  mkdirSync(join(folder, 'bin'));
  const script = `#!/bin/sh
echo "$@" >> '${folder}/calls'
case "$1" in
  info) echo fake;;
  run) echo $$ > '${folder}/pid'; exec python3 '${worker}';;
esac
`;
  writeFileSync(join(folder, 'bin/docker'), script);
  chmodSync(join(folder, 'bin/docker'), 0o755);
  setPath(t, `${join(folder, 'bin')}:${process.env.PATH}`);
  return folder;
}

function setPath(t: TestContext, path: string): void {
  const before = process.env.PATH;
  process.env.PATH = path;
  t.after(() => {
    process.env.PATH = before;
  });
}

function calls(folder: string): string[] {
  const path = join(folder, 'calls');
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
}

const pidOf = (folder: string): number => Number(readFileSync(join(folder, 'pid'), 'utf8'));
