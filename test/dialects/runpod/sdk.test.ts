// RunPod's own JavaScript SDK, unmodified, against a real server with real workers.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';

interface SdkEndpoint {
  run(request: unknown, timeout?: number): Promise<Record<string, unknown>>;
  runSync(request: unknown, timeout?: number): Promise<Record<string, unknown>>;
  status(id: string): Promise<Record<string, unknown>>;
  statusSync(id: string, timeout?: number): Promise<Record<string, unknown>>;
  stream(id: string, timeout?: number): AsyncIterable<Record<string, unknown>>;
  cancel(id: string): Promise<Record<string, unknown>>;
  health(): Promise<Record<string, Record<string, number>>>;
  purgeQueue(): Promise<Record<string, unknown>>;
}
type Sdk = (key: string, options: { baseUrl: string }) => { endpoint(id: string): SdkEndpoint };

const require = createRequire(join(import.meta.dirname, '../../package.json'));

test('runpod-sdk: run, runSync, status, statusSync, stream, cancel, health, purgeQueue', async (t) => {
  const sdk = ((await import(require.resolve('runpod-sdk'))) as { default: Sdk }).default;
  const server = await startEndpoints(t);
  await server.save('sdk', { recipe: { module: handlerFile }, maxWorkers: 1 });
  const endpoint = sdk(server.key, { baseUrl: `${server.url}/v2` }).endpoint('sdk');

  const started = await endpoint.run({ input: { a: 1 } });
  assert.equal(started.status, 'IN_QUEUE');
  const ended = await endpoint.statusSync(started.id as string, 60_000);
  assert.equal(ended.status, 'COMPLETED');
  assert.deepEqual(ended.output, { a: 1 });
  assert.deepEqual((await endpoint.status(started.id as string)).output, { a: 1 });

  const sync = await endpoint.runSync({ input: { do: 'wait', ms: 1500, value: 'late' } }, 60_000);
  assert.equal(sync.status, 'COMPLETED');
  assert.equal(sync.output, 'late');

  const streamed = await endpoint.run({ input: { do: 'stream', count: 5, ms: 50 } });
  const chunks: unknown[] = [];
  for await (const chunk of endpoint.stream(streamed.id as string, 60_000))
    chunks.push(chunk.output);
  assert.deepEqual(
    chunks,
    [0, 1, 2, 3, 4].map((index) => ({ index })),
  );

  const long = await endpoint.run({ input: { do: 'wait', ms: 60_000 } });
  await until(
    'it runs',
    async () => (await endpoint.status(long.id as string)).status === 'IN_PROGRESS',
  );
  const waiting = await endpoint.run({ input: {} });
  assert.deepEqual(await purged(endpoint), { removed: 1, status: 'completed' });
  assert.equal((await endpoint.status(waiting.id as string)).status, 'CANCELLED');
  assert.equal((await endpoint.cancel(long.id as string)).status, 'CANCELLED');
  assert.equal((await endpoint.status(long.id as string)).status, 'CANCELLED');

  const stranger = sdk('wrong', { baseUrl: `${server.url}/v2` }).endpoint('sdk');
  await assert.rejects(stranger.run({ input: {} }), /401/);
  await assert.rejects(endpoint.status('nothing'), /404/);

  const { jobs } = await endpoint.health();
  assert.equal(jobs!.completed, 3);
  assert.equal(jobs!.inQueue, 0);
});

async function purged(endpoint: SdkEndpoint): Promise<unknown> {
  const { removed, status } = await endpoint.purgeQueue();
  return { removed, status };
}
