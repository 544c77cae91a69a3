// A handler file behind an endpoint, from submission to result, with our runner.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';

test('a JS/TS handler starts on demand, returns, streams, fails and stops when idle', async (t) => {
  const server = await startEndpoints(t);
  await server.save('echo', { recipe: { module: handlerFile }, idleTimeoutMs: 500 });

  const first = await server.run('echo', { a: 1 });
  const done = await server.ended('echo', first);
  assert.equal(done.status, 'COMPLETED');
  assert.deepEqual(done.output, { a: 1 });
  assert.equal(typeof done.delayTime, 'number');
  assert.equal(typeof done.executionTime, 'number');
  assert.equal(typeof done.workerId, 'string');

  const empty = await server.ended('echo', await server.run('echo', {}));
  assert.equal(empty.status, 'COMPLETED', 'an empty input is delivered');

  const thrown = await server.ended('echo', await server.run('echo', { do: 'throw' }));
  assert.equal(thrown.status, 'FAILED');
  const error = JSON.parse(thrown.error as string) as Record<string, string>;
  assert.equal(error.error_type, 'TypeError');
  assert.equal(error.error_message, 'boom');

  const refused = await server.ended('echo', await server.run('echo', { do: 'error' }));
  assert.equal(refused.status, 'FAILED');
  assert.equal(refused.error, 'refused');
  assert.deepEqual(refused.output, { kept: 1 });

  const object = await server.ended('echo', await server.run('echo', { do: 'errorObject' }));
  assert.equal(object.status, 'FAILED', 'an error object fails the job');

  const sync = await server.call('POST', '/v2/echo/runsync', { input: { b: 2 } });
  assert.equal(sync.status, 200);
  assert.deepEqual(sync.body.output, { b: 2 });

  const streamed = await server.run('echo', { do: 'stream', count: 4 });
  await server.ended('echo', streamed);
  const chunks = await server.call('GET', `/v2/echo/stream/${streamed}`);
  assert.deepEqual(chunks.body, {
    status: 'COMPLETED',
    stream: [0, 1, 2, 3].map((index) => ({ output: { index } })),
  });
  const again = await server.call('GET', `/v2/echo/stream/${streamed}`);
  assert.deepEqual(again.body, { status: 'COMPLETED', stream: [] }, 'each chunk once');

  const { body: listed } = await server.call('GET', '/api/endpoints/echo/workers');
  const { count, p50Ms, p95Ms } = listed.starts as Record<string, number>;
  assert.ok(count! >= 1 && p50Ms! > 0 && p95Ms! >= p50Ms!, JSON.stringify(listed.starts));

  await until('the idle worker is gone', async () => {
    const { body } = await server.call('GET', '/v2/echo/health');
    const { workers, jobs } = body as Record<string, Record<string, number>>;
    return workers!.ready === 0 && jobs!.completed === 4 && jobs!.failed === 3;
  });
});
