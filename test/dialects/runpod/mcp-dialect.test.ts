// `errand mcp --dialect runpod`: every tool for endpoints and jobs, called over MCP with RunPod's names and
// parameters, plus annotations, output schemas and the reason why a job waits.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { httpClient, type ToolResult } from '../../interfaces/mcp/clients.ts';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';
import { bin } from '../../helpers/server.ts';

type Json = Record<string, unknown>;

const run = 'endpointId! input! policy s3Config';
const job = 'endpointId! jobId!';
const gpus =
  'allowedCudaVersions endpointId! excludeGpuTypeIds gpuCount gpuIds minCudaVersion pools';
/** Parameters by tool; ! is required. */
const parameters: Record<string, string> = {
  'run-endpoint': `${run} webhook`,
  'runsync-endpoint': `${run} wait webhook`,
  'get-job-status': `${job} wait`,
  'stream-job': job,
  'cancel-job': job,
  'retry-job': job,
  'endpoint-health': 'endpointId!',
  'purge-endpoint-queue': 'endpointId!',
  'list-endpoints': 'cursor limit',
  'get-endpoint': 'id!',
  'create-endpoint': 'body!',
  'update-endpoint': 'body! id!',
  'delete-endpoint': 'id!',
  'list-endpoint-workers': 'id!',
  'list-endpoint-releases': 'id!',
  'list-endpoint-builds': 'id!',
  'get-endpoint-build': 'buildId! id!',
  'stream-worker-logs': 'endpointId! maxWaitMs since source tail workerId!',
  'set-endpoint-gpus': gpus,
  'list-serverless-billing': 'bucketSize endTime lastN serverlessId startTime',
  'list-public-endpoints': 'cursor includeOffline limit modality owner searchTerm',
  'list-hub-repos': 'category cursor includeConfig limit repoOwner searchTerm type',
  'deploy-hub-repo':
    'containerDiskInGb env executionTimeoutMs flashboot gpuCount gpuIds hubReleaseId idleTimeout name repo scalerType scalerValue workersMax workersMin',
};
const readOnly = /^(get-|list-|stream-worker-logs|endpoint-health)/;
const destructive = /^(delete-|purge-|cancel-|retry-|stream-job)/;

test('every tool has the expected name, parameters and annotations', async (t) => {
  const server = await startEndpoints(t);
  const client = new Client({ name: 'test', version: '1' });
  t.after(() => client.close());
  const env = { ...(process.env as Record<string, string>), ERRAND_HOME: server.home };
  const args = [bin, 'mcp', '--dialect', 'runpod'];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env }));
  const { tools } = await client.listTools();
  const found = tools.map(({ name, inputSchema }) => {
    const { properties = {}, required = [] } = inputSchema as {
      properties?: object;
      required?: string[];
    };
    const names = Object.keys(properties).toSorted();
    return [name, names.map((one) => (required.includes(one) ? `${one}!` : one)).join(' ')];
  });
  assert.deepEqual(Object.fromEntries(found), parameters);
  for (const { name, title, annotations, outputSchema } of tools) {
    assert.ok(title && outputSchema, name);
    assert.equal(annotations?.readOnlyHint ?? false, readOnly.test(name), name);
    assert.equal(annotations?.destructiveHint === true, destructive.test(name), name);
  }
});

test('the tools work over MCP', async (t) => {
  const server = await startEndpoints(t);
  const client = await httpClient(t, `${server.url}/mcp?dialect=runpod`, 'auto', server.key);
  const call = async (name: string, args: Json) =>
    (await client.callTool({ name, arguments: args })) as unknown as ToolResult;
  const tool = async (name: string, args: Json): Promise<Json> => {
    const answer = await call(name, args);
    assert.ok(!answer.isError, `${name}: ${answer.content[0]?.text}`);
    return answer.structuredContent!;
  };
  const refused = async (name: string, args: Json): Promise<Json> => {
    const answer = await call(name, args);
    assert.ok(answer.isError, name);
    return JSON.parse(answer.content[0]!.text!) as Json;
  };
  const image = pathToFileURL(handlerFile).href;
  const scaling = { type: 'QUEUE_DELAY', queueDelay: 1 };
  const made = await tool('create-endpoint', {
    body: {
      name: 'n',
      type: 'QUEUE',
      scaling,
      image,
      workers: { min: 0, max: 1, idleTimeout: 60 },
    },
  });
  const endpointId = made.id as string;
  const id = endpointId;
  const shown = await tool('get-endpoint', { id });
  assert.equal(shown.name, 'n');
  assert.equal(
    (shown.requestUrls as Record<string, string>).run,
    `${server.url}/v2/${String(id)}/run`,
    'with the address of the server, even over stdio',
  );
  const { items, pagination } = await tool('list-endpoints', { limit: 1 });
  assert.equal((items as Json[])[0]!.id, id);
  assert.equal((pagination as Json).total, 1);
  const sync = await tool('runsync-endpoint', { endpointId, input: { a: 1 }, wait: 30_000 });
  assert.deepEqual([sync.status, sync.output], ['COMPLETED', { a: 1 }]);
  const started = await tool('run-endpoint', { endpointId, input: { do: 'stream', count: 2 } });
  const streamed = await tool('stream-job', { endpointId, jobId: started.id });
  assert.deepEqual([streamed.status, (streamed.stream as Json[]).length], ['COMPLETED', 2]);

  const status = (jobId: unknown, more = {}) =>
    tool('get-job-status', { endpointId, jobId, ...more });
  const isOver = (part: Json) => part.status === 'COMPLETED' && !('note' in part);
  const much = await tool('run-endpoint', { endpointId, input: { do: 'stream', count: 600 } });
  await status(much.id, { wait: 50_000 });
  const seen: unknown[] = [];
  for (let part: Json = {}; !isOver(part);) {
    part = await tool('stream-job', { endpointId, jobId: much.id });
    seen.push(
      ...(part.stream as { output: { index: number } }[]).map(({ output }) => output.index),
    );
    assert.ok(JSON.stringify(part).length < 30_000, 'a part is small enough to be read');
  }
  assert.deepEqual(seen, [...seen.keys()], 'every chunk once, in order');
  assert.equal(seen.length, 600);

  const long = await tool('run-endpoint', { endpointId, input: { do: 'wait', ms: 60_000 } });
  await until('it runs', async () => (await status(long.id)).status === 'IN_PROGRESS');
  const queued = await tool('run-endpoint', { endpointId, input: {} });
  const waiting = await status(queued.id, { wait: 1000 });
  assert.deepEqual([waiting.status, waiting.pollingTimedOut], ['IN_QUEUE', true]);
  assert.deepEqual(
    [(waiting.workerHealth as Json).running, (waiting.workerHealth as Json).total],
    [1, 1],
  );
  assert.match(waiting.hint as string, /busy with other jobs/);
  const purged = await tool('purge-endpoint-queue', { endpointId });
  assert.deepEqual(purged, { removed: 1, status: 'completed' });
  assert.equal((await tool('cancel-job', { endpointId, jobId: long.id })).status, 'CANCELLED');
  const wrong = await refused('retry-job', { endpointId, jobId: long.id });
  assert.match(
    `${String(wrong.error)} ${String(wrong.hint)}`,
    /CANCELLED.*Only FAILED and TIMED_OUT/,
  );
  const failed = await tool('runsync-endpoint', { endpointId, input: { do: 'throw' } });
  assert.equal(failed.status, 'FAILED');
  const again = await tool('retry-job', { endpointId, jobId: failed.id });
  assert.deepEqual(again, { id: failed.id, status: 'IN_QUEUE' });
  assert.equal((await status(failed.id, { wait: 30_000 })).retries, 1);
  const { jobs } = await tool('endpoint-health', { endpointId });
  assert.equal((jobs as Json).inQueue, 0);

  const { workers } = await tool('list-endpoint-workers', { id });
  const workerId = (workers as Json[])[0]!.id;
  const log = await tool('stream-worker-logs', { endpointId, workerId, source: 'system' });
  assert.match((log.items as { line: string }[])[0]!.line, /start worker/);
  assert.equal((await tool('update-endpoint', { id, body: { env: { A: '1' } } })).version, 2);
  const releases = await tool('list-endpoint-releases', { id });
  assert.equal((releases.releases as unknown[]).length, 2);
  const gpu = await tool('set-endpoint-gpus', {
    endpointId,
    gpuIds: 'AMPERE_16, ADA_24',
    gpuCount: 2,
  });
  assert.deepEqual(gpu.gpu, { pools: ['AMPERE_16', 'ADA_24'], count: 2 });
  assert.deepEqual(await tool('list-endpoint-builds', { id }), { builds: [] });
  assert.match(
    (await refused('get-endpoint-build', { id, buildId: 'b' })).error as string,
    /Build .* does not exist/,
  );
  for (const name of ['list-public-endpoints', 'list-hub-repos'])
    assert.deepEqual((await tool(name, {})).items, []);
  assert.deepEqual((await tool('list-serverless-billing', {})).records, []);
  assert.match(
    (await refused('deploy-hub-repo', { repo: 'a/b' })).hint as string,
    /create-endpoint/,
  );
  const short = { endpointId, input: {}, policy: { executionTimeout: 1 } };
  assert.match(
    (await refused('run-endpoint', short)).error as string,
    /^policy\.executionTimeout: /,
  );
  await tool('delete-endpoint', { id });
  const gone = await refused('endpoint-health', { endpointId });
  assert.match(gone.hint as string, /^list-endpoints shows .* create-endpoint/, 'it names tools');
  assert.match((await refused('get-endpoint', { id })).error as string, /does not exist/);
});
