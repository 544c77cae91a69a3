// Behaviour of RunPod's package besides its protocol: a file with running jobs in the working folder, polls that must
// return before it exits, dropped results. The protocol worker of these tests does the same.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { EndpointServer } from '../../helpers/endpoint.ts';
import { sharedEndpoints } from '../../helpers/shared-endpoints.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const python = ['python3', join(import.meta.dirname, '../../fixtures/endpoint/worker.py')];
const stateFile = '.runpod_jobs.pkl';

test(
  'jobs of an earlier worker in the working folder do not block a new one',
  { timeout: 90_000 },
  async (t) => {
    const server = await sharedEndpoints();
    const cwd = tempFolder(t);
    leaveState(cwd);
    const recipe = { worker: python, cwd };
    await server.save('kept', { recipe, maxWorkers: 1, askTimeoutMs: 8000 });
    const first = await server.ended('kept', await server.run('kept', {}));
    assert.equal(first.status, 'COMPLETED', 'a start removes the file');

    leaveState(cwd);
    const second = await server.ended('kept', await server.run('kept', {}));
    assert.equal(second.workerId, first.workerId, 'its open poll takes one more job');
    const id = await server.run('kept', {});
    const said = await until('the diagnosis names the file', async () => {
      const { body } = await server.call('GET', `/api/jobs/${id}`);
      return /has not polled for work/.test(String(body.diagnosis)) && String(body.diagnosis);
    });
    assert.ok(String(said).includes(`${cwd}/${stateFile}`), String(said));
    const third = await server.ended('kept', id);
    assert.deepEqual([third.status, third.retries], ['COMPLETED', undefined]);
    assert.notEqual(third.workerId, first.workerId, 'a worker that does not poll is replaced');
    await server.call('DELETE', '/api/endpoints/kept');
  },
);

test('every worker has its own folder, which is removed with it', async () => {
  const server = await sharedEndpoints();
  const spec = { recipe: { worker: python }, minWorkers: 2, maxWorkers: 2 };
  await server.save('own', spec);
  const running = await Promise.all(
    [1, 2].map(() => server.run('own', { do: 'wait', ms: 60_000 })),
  );
  const scratch = join(server.home, 'endpoints/scratch');
  await until('both work', () => {
    const folders = readdirSync(scratch);
    return (
      folders.length === 2 && folders.every((name) => existsSync(join(scratch, name, stateFile)))
    );
  });
  assert.ok(!existsSync(join(server.home, stateFile)));
  for (const id of running) await server.call('POST', `/v2/own/cancel/${id}`, '');
  await server.call('DELETE', '/api/endpoints/own');
  await until('nothing is left', () => readdirSync(scratch).length === 0);
});

for (const relay of [true, false])
  test(`an idle worker exits on its own, ${relay ? 'behind its relay' : 'without a relay'}`, async () => {
    const server = await sharedEndpoints();
    const id = relay ? 'relayed' : 'direct';
    await server.save(id, { recipe: { worker: python }, relay, idleTimeoutMs: 100 });
    await server.ended(id, await server.run(id, {}));
    const [end] = await ended(server, id);
    assert.deepEqual([end!.exitCode, end!.exitSignal], [0, null], end!.reason);
    assert.match(end!.reason, /^idle for 100 ms/);
  });

test("a result that cannot be posted fails the job with the worker's own error", async () => {
  const server = await sharedEndpoints();
  await server.save('bytes', { recipe: { worker: python }, maxWorkers: 1 });
  const { status, error, retries } = await server.ended(
    'bytes',
    await server.run('bytes', { do: 'bytes' }),
  );
  assert.deepEqual([status, retries], ['FAILED', undefined]);
  assert.match(String(error), /Error while returning job result.*bytes is not JSON serializable/);
  const next = await server.ended('bytes', await server.run('bytes', {}));
  assert.equal(next.status, 'COMPLETED');
});

test('a retried cancelled job neither mentions a lost worker nor counts as retried', async () => {
  const server = await sharedEndpoints();
  await server.save('again', {});
  const id = await server.run('again', {});
  await server.call('POST', `/v2/again/cancel/${id}`, '');
  await server.call('POST', `/api/jobs/${id}/retry`, {});
  // A worker with an open poll gets the job next.
  await server.call('GET', '/v2/again/ping/w1?gpu=x');
  const { body } = await server.call('GET', `/api/jobs/${id}`);
  assert.doesNotMatch(String(body.diagnosis), /lost/);
  const health = await server.call('GET', '/v2/again/health');
  assert.equal((health.body.jobs as Record<string, number>).retried, 0);
});

/** Writes the file as a killed worker leaves it. */
function leaveState(folder: string): void {
  const script = 'import pickle, sys; pickle.dump({"job_of_another"}, open(sys.argv[1], "wb"))';
  const { status } = spawnSync('python3', ['-c', script, join(folder, stateFile)]);
  assert.equal(status, 0);
}

async function ended(server: EndpointServer, id: string) {
  type End = { reason: string; exitCode: number | null; exitSignal: string | null };
  return until('a worker has ended', async () => {
    const { body } = await server.call('GET', `/api/endpoints/${id}/workers`);
    const ends = body.ended as End[];
    return ends.length > 0 ? ends : undefined;
  });
}
