// How many workers there are and which get work, with real processes: from none to the maximum and back, one that never
// comes up, and jobs that arrive just when a worker is being replaced.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';

const python = ['python3', join(import.meta.dirname, '../../fixtures/endpoint/worker.py')];

test('from no worker to the maximum and back to none', async (t) => {
  const server = await startEndpoints(t);
  const scaling = { type: 'REQUEST_COUNT', requestCount: 1 };
  const recipe = { module: handlerFile };
  await server.save('wave', { recipe, scaling, workersMax: 2, idleTimeoutMs: 300 });
  const health = async () =>
    (await server.call('GET', '/v2/wave/health')).body.workers as Record<string, number>;
  assert.equal((await health()).ready, 0, 'none without work');
  const ids = await Promise.all(
    [1, 2, 3].map(() => server.run('wave', { do: 'wait', ms: 120_000 })),
  );
  await until('both work', async () => (await health()).running === 2);
  const states = await Promise.all(
    ids.map(async (id) => (await server.call('GET', `/v2/wave/status/${id}`)).body),
  );
  const words = states.map(({ status }) => String(status)).toSorted();
  assert.deepEqual(words, ['IN_PROGRESS', 'IN_PROGRESS', 'IN_QUEUE'], 'never over the maximum');
  assert.equal(new Set(states.map(({ workerId }) => workerId)).size, 3, 'one each, and one waits');
  for (const id of ids) await server.call('POST', `/v2/wave/cancel/${id}`, '');
  await until('all are gone', async () => {
    const { body } = await server.call('GET', '/api/endpoints/wave/workers');
    return (body.workers as unknown[]).length === 0;
  });
});

test('a worker that never asks for work is given up, and the job behind it says so', async (t) => {
  const server = await startEndpoints(t);
  const recipe = { worker: ['sh', '-c', 'echo loading weights; exec sleep 300'] };
  await server.save('cold', { recipe, startTimeoutMs: 1000, stopMs: 200 });
  const id = await server.run('cold', {});
  const text = await until('it is told', async () => {
    const { body } = await server.call('GET', `/api/jobs/${id}`);
    return /did not ask for work in time/.test(String(body.diagnosis)) && String(body.diagnosis);
  });
  assert.match(String(text), /Its last lines: .*loading weights/);
  await until('and it counts as unhealthy', async () => {
    const { body } = await server.call('GET', '/v2/cold/health');
    return (body.workers as Record<string, number>).unhealthy! > 0;
  });
});

test('a worker that is being replaced is fenced first: no job is swallowed with it', async (t) => {
  const server = await startEndpoints(t);
  await server.save('fenced', { recipe: { worker: python }, workersMin: 1, workersMax: 1 });
  const run = async () => server.ended('fenced', await server.run('fenced', {}));
  const seen = new Set([(await run()).workerId]);
  for (const version of ['2', '3', '4']) {
    await server.save('fenced', { env: { MODEL: version } });
    const job = await run();
    assert.deepEqual([job.status, job.retries], ['COMPLETED', undefined]);
    seen.add(job.workerId);
  }
  await until('the last version works', async () => {
    seen.add((await run()).workerId);
    return seen.size >= 3;
  });
});
