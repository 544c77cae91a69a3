// RunPod's own MCP server 4.0.0, unmodified, over stdio with its two base-URL variables.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test, type TestContext } from 'node:test';
import { handlerFile, startEndpoints, type EndpointServer } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

type Tool = (name: string, args: Record<string, unknown>) => Promise<Record<string, unknown>>;

const require = createRequire(join(import.meta.dirname, '../../package.json'));

test('@runpod/mcp-server 4.0.0: the job tools and the endpoint tools', async (t) => {
  const server = await startEndpoints(t);
  const tool = await startMcp(t, server);
  const scaling = { type: 'QUEUE_DELAY', queueDelay: 1 };

  const made = await tool('create-endpoint', {
    body: {
      name: 'made by RunPod',
      type: 'QUEUE',
      scaling,
      image: pathToFileURL(handlerFile).href,
      workers: { min: 0, max: 1, idleTimeout: 60 },
    },
  });
  const endpointId = made.id as string;
  assert.equal(made.name, 'made by RunPod');
  assert.equal(made.timeout, 300_000);
  const list = await tool('list-endpoints', {});
  assert.deepEqual(
    (list.items as { id: string }[]).map(({ id }) => id),
    [endpointId],
  );
  const got = await tool('get-endpoint', { id: endpointId });
  assert.equal(
    (got.requestUrls as Record<string, string>).run,
    `${server.url}/v2/${endpointId}/run`,
  );

  const run = await tool('run-endpoint', { endpointId, input: { a: 1 } });
  assert.equal(run.status, 'IN_QUEUE');
  const done = await tool('get-job-status', { endpointId, jobId: run.id, wait: 60_000 });
  assert.equal(done.status, 'COMPLETED');
  assert.deepEqual(done.output, { a: 1 });
  const sync = await tool('runsync-endpoint', { endpointId, input: { b: 2 }, wait: 30_000 });
  assert.deepEqual(sync.output, { b: 2 });

  const streaming = await tool('run-endpoint', { endpointId, input: { do: 'stream', count: 3 } });
  const streamed = await tool('stream-job', { endpointId, jobId: streaming.id });
  assert.deepEqual(
    streamed.stream,
    [0, 1, 2].map((index) => ({ output: { index } })),
  );

  const failing = await tool('run-endpoint', { endpointId, input: { do: 'throw' } });
  const failed = await tool('get-job-status', { endpointId, jobId: failing.id, wait: 30_000 });
  assert.equal(failed.status, 'FAILED');
  const retried = await tool('retry-job', { endpointId, jobId: failing.id });
  assert.deepEqual(retried, { id: failing.id, status: 'IN_QUEUE' });
  const again = await tool('get-job-status', { endpointId, jobId: failing.id, wait: 30_000 });
  assert.deepEqual([again.status, again.retries], ['FAILED', 1]);

  // Errors reach the agent in our words, with RunPod's advice.
  const refusals: [string, Record<string, unknown>, RegExp][] = [
    ['get-job-status', { endpointId, jobId: 'job_nothing' }, /404[^]*job_nothing/],
    ['run-endpoint', { endpointId: 'nobody', input: {} }, /404[^]*nobody/],
    ['retry-job', { endpointId, jobId: run.id }, /400[^]*COMPLETED/],
    ['get-endpoint', { id: 'nobody' }, /404[^]*nobody/],
    ['list-public-endpoints', {}, /no GraphQL API/],
    ['list-pods', {}, /404/],
  ];
  for (const [name, args, text] of refusals) await assert.rejects(tool(name, args), text);

  const { workers } = await until('a worker is there', async () => {
    const found = await tool('list-endpoint-workers', { id: endpointId });
    return (found.workers as unknown[]).length > 0 ? found : undefined;
  });
  const workerId = (workers as { id: string }[])[0]!.id;
  const logs = await tool('stream-worker-logs', { endpointId, workerId, maxWaitMs: 1000 });
  assert.ok((logs.items as { line: string }[]).some(({ line }) => line.startsWith('start worker')));

  const long = await tool('run-endpoint', { endpointId, input: { do: 'wait', ms: 60_000 } });
  await until('it runs', async () => {
    const now = await tool('get-job-status', { endpointId, jobId: long.id });
    return now.status === 'IN_PROGRESS';
  });
  const waiting = await tool('run-endpoint', { endpointId, input: {} });
  const queued = await tool('get-job-status', { endpointId, jobId: waiting.id });
  assert.equal(queued.status, 'IN_QUEUE');
  assert.equal((queued.workerHealth as Record<string, number>).running, 1);
  assert.deepEqual(await tool('purge-endpoint-queue', { endpointId }), {
    removed: 1,
    status: 'completed',
  });
  const cancelled = await tool('cancel-job', { endpointId, jobId: long.id });
  assert.equal(cancelled.status, 'CANCELLED');
  const health = await tool('endpoint-health', { endpointId });
  assert.equal((health.jobs as Record<string, number>).inQueue, 0);

  const updated = await tool('update-endpoint', { id: endpointId, body: { name: 'renamed' } });
  assert.equal(updated.name, 'renamed');
  const releases = await tool('list-endpoint-releases', { id: endpointId });
  assert.equal(releases.endpointVersion, 1);
  await withoutEngine(t, server, tool);
  await tool('delete-endpoint', { id: endpointId });
  assert.equal((await server.call('GET', `/v2/serverless/${endpointId}`)).status, 404);
});

/** An image without a container engine: RunPod's advice must not be to wait for GPUs. */
async function withoutEngine(t: TestContext, server: EndpointServer, tool: Tool): Promise<void> {
  const path = process.env.PATH;
  process.env.PATH = tempFolder(t);
  t.after(() => (process.env.PATH = path));
  await server.save('boxed', { recipe: { image: 'nobody/nothing:1' } });
  const { id: jobId } = await tool('run-endpoint', { endpointId: 'boxed', input: {} });
  const { hint, workerHealth } = await until('it is diagnosed', async () => {
    const found = await tool('get-job-status', { endpointId: 'boxed', jobId });
    const { unhealthy } = (found.workerHealth ?? {}) as { unhealthy?: number };
    return unhealthy === 1 ? found : undefined;
  });
  assert.doesNotMatch(String(hint), /scaling from zero|no capacity/i, JSON.stringify(workerHealth));
  assert.match(String(hint), /no-worker/);
  const input = { endpointId: 'boxed', workerId: 'no-worker', maxWaitMs: 1000 };
  const { items } = await tool('stream-worker-logs', input);
  assert.match((items as { line: string }[])[0]!.line, /no container engine responds/);
  await tool('delete-endpoint', { id: 'boxed' });
}

async function startMcp(t: TestContext, server: EndpointServer): Promise<Tool> {
  const { Client } = (await import(
    require.resolve('@modelcontextprotocol/sdk/client/index.js')
  )) as typeof import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = (await import(
    require.resolve('@modelcontextprotocol/sdk/client/stdio.js')
  )) as typeof import('@modelcontextprotocol/sdk/client/stdio.js');
  const script = join(import.meta.dirname, '../../node_modules/@runpod/mcp-server/dist/stdio.mjs');
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [script],
    env: {
      PATH: process.env.PATH ?? '',
      RUNPOD_API_KEY: server.key,
      RUNPOD_SERVERLESS_API_URL: `${server.url}/v2`,
      RUNPOD_API_BASE_URL: server.url,
      RUNPOD_PUBLIC_GRAPHQL_URL: `${server.url}/graphql`,
      RUNPOD_AUTHED_GRAPHQL_URL: `${server.url}/graphql`,
    },
    stderr: 'ignore',
  });
  await client.connect(transport);
  t.after(() => client.close());
  return async (name, args) => {
    const answer = (await client.callTool({ name, arguments: args }, undefined, {
      timeout: 120_000,
    })) as { isError?: boolean; content: { text: string }[] };
    const text = answer.content[0]?.text ?? '{}';
    assert.ok(!answer.isError, `${name}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
}
