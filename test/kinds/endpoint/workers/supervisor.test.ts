// Scaling with real processes: from none to the maximum and back, a worker that never starts, and jobs that arrive
// while a worker is being replaced.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { handlerFile, startEndpoints } from '../../../helpers/endpoint.ts';
import { until } from '../../../helpers/until.ts';

const python = ['python3', join(import.meta.dirname, '../../../fixtures/endpoint/worker.py')];

test('an endpoint scales from zero to the maximum and back', async (t) => {
  const server = await startEndpoints(t);
  const scaling = { type: 'REQUEST_COUNT', requestCount: 1 };
  const recipe = { module: handlerFile };
  await server.save('wave', { recipe, scaling, maxWorkers: 2, idleTimeoutMs: 300 });
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

test('a worker that never polls is given up, and the waiting job shows the reason', async (t) => {
  const server = await startEndpoints(t);
  const recipe = { worker: ['sh', '-c', 'echo loading weights; exec sleep 300'] };
  await server.save('cold', { recipe, startTimeoutMs: 1000, stopMs: 200 });
  const id = await server.run('cold', {});
  const text = await until('the reason is shown', async () => {
    const { body } = await server.call('GET', `/api/jobs/${id}`);
    // On a loaded machine the first worker may be given up before it prints anything.
    const pattern = /did not poll for work in time[^]*Its last lines: .*loading weights/;
    return pattern.test(String(body.diagnosis)) && String(body.diagnosis);
  });
  assert.ok(text);
  await until('and it counts as unhealthy', async () => {
    const { body } = await server.call('GET', '/v2/cold/health');
    return (body.workers as Record<string, number>).unhealthy! > 0;
  });
});

test('a worker that is being replaced gets no more jobs, so none is lost', async (t) => {
  const server = await startEndpoints(t);
  await server.save('fenced', { recipe: { worker: python }, minWorkers: 1, maxWorkers: 1 });
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
