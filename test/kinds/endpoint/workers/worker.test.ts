// The worker plane with a plain Python worker, started by the supervisor and externally, including late, duplicate
// and malformed posts.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { EndpointServer } from '../../../helpers/endpoint.ts';
import { sharedEndpoints } from '../../../helpers/shared-endpoints.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';

const python = ['python3', join(import.meta.dirname, '../../../fixtures/endpoint/worker.py')];

test('a Python protocol worker handles results of every shape, progress, streams and cancel', async () => {
  const server = await sharedEndpoints();
  await server.save('py', { recipe: { worker: python }, maxWorkers: 1, stopMs: 1000 });
  const end = async (input: unknown) => server.ended('py', await server.run('py', input));

  const echo = await end({});
  assert.equal(echo.status, 'COMPLETED');
  assert.deepEqual((echo.output as Record<string, unknown>).keys, ['id', 'input']);
  assert.equal((await end({ do: 'bare' })).output, undefined, 'a bare post has no output');
  const failed = await end({ do: 'error' });
  assert.equal(failed.status, 'FAILED');
  assert.match(failed.error as string, /ValueError/);

  const nan = await end({ do: 'nan' });
  assert.deepEqual(nan.output, { a: null, b: null, c: 'NaN' });
  const noted = await server.call('GET', `/api/jobs/${nan.id as string}`);
  assert.match(String(noted.body.resultNote), /NaN or Infinity/, 'not silently');
  const whole = await end({ do: 'progress' });
  assert.equal(whole.output, 'whole', 'late progress changes nothing');
  const twice = await end({ do: 'twice' });
  assert.equal(twice.output, 'first', 'a duplicate post changes nothing');

  const id = await server.run('py', { do: 'big', n: 1 });
  await server.ended('py', id);
  const text = await (
    await fetch(`${server.url}/v2/py/status/${id}`, { headers: { authorization: server.key } })
  ).text();
  assert.match(text, /"n":9007199254740993/, 'integers beyond 2^53 keep their digits');

  const odd = await end({ do: 'notJson' });
  assert.equal(odd.status, 'FAILED');
  assert.match(odd.error as string, /not a JSON object/);
  assert.equal(odd.output, '<html>not json</html>', 'nothing a worker sent is dropped');
  const deep = await end({ do: 'deep' });
  assert.equal(deep.status, 'FAILED');

  const large = await end({ do: 'large', bytes: 21 * 1024 * 1024 });
  assert.equal(large.status, 'COMPLETED');
  assert.equal((large.output as string).length, 21 * 1024 * 1024);
  const piece = await server.call('GET', `/api/jobs/${large.id as string}/result?limit=10`);
  assert.deepEqual(piece.body, {
    text: `"${'x'.repeat(9)}`,
    totalChars: 21 * 1024 * 1024 + 2,
    nextOffset: 10,
  });

  const streamed = await server.run('py', { do: 'stream', count: 3 });
  await server.ended('py', streamed);
  const { body } = await server.call('POST', `/v2/py/stream/${streamed}`, '');
  assert.equal((body.stream as unknown[]).length, 3);

  const refreshed = await end({ do: 'refresh' });
  const next = await end({});
  assert.notEqual(next.workerId, refreshed.workerId, 'stopPod replaces the worker');

  const running = await server.run('py', { do: 'wait', ms: 60_000 });
  await until('it runs', async () => {
    const now = await server.call('GET', `/v2/py/status/${running}`);
    return now.body.status === 'IN_PROGRESS';
  });
  const cancelled = await server.call('POST', `/v2/py/cancel/${running}`, '');
  assert.equal(cancelled.body.status, 'CANCELLED');
  const after = await end({});
  assert.equal(after.workerId, next.workerId, 'a worker that stops its job is not replaced');
  const log = await server.call('GET', `/api/endpoints/py/log?workerId=${String(next.workerId)}`);
  const lines = log.body.lines as { line: string; jobId?: string }[];
  assert.ok(lines.some(({ line, jobId }) => line === 'Job stopped.' && jobId === running));
});

test('an external worker: its key, its leases, and redelivery when it is killed', async (t) => {
  const server = await sharedEndpoints();
  await server.save('outside', { leaseMs: 2000 });
  await server.save('other', {});
  const key = await workerKey(server, 'outside');

  const queued = await server.run('outside', { do: 'wait', ms: 60_000 });
  const waiting = await server.call('GET', `/api/jobs/${queued}`);
  assert.match(waiting.body.diagnosis as string, /No worker has connected/);

  const foreign = await server.call('GET', '/v2/other/job-take/w1?gpu=x', undefined, {
    authorization: key,
  });
  assert.equal(foreign.status, 401, 'a worker key of another endpoint is rejected');
  const submit = await server.call(
    'POST',
    '/v2/outside/run',
    { input: {} },
    { authorization: key },
  );
  assert.equal(submit.status, 403, 'a worker key cannot submit jobs');

  const first = startWorker(t, server, key, 'w-first');
  await until('it runs', async () => {
    const now = await server.call('GET', `/v2/outside/status/${queued}`);
    return now.body.status === 'IN_PROGRESS';
  });
  process.kill(first.pid!, 'SIGKILL');
  // The same worker must not get the job again. Another one gets it once, and then it is FAILED.
  const again = startWorker(t, server, key, 'w-first');
  await until('the lease ran out', async () => {
    const now = await server.call('GET', `/v2/outside/status/${queued}`);
    return now.body.status === 'IN_QUEUE' && now.body.retries === 1;
  });
  const other = await server.run('outside', {});
  const echoed = await server.ended('outside', other);
  assert.equal((echoed.output as { worker: string }).worker, 'w-first');
  assert.equal((await server.call('GET', `/v2/outside/status/${queued}`)).body.status, 'IN_QUEUE');
  const second = startWorker(t, server, key, 'w-second');
  await until('the other worker runs it', async () => {
    const now = await server.call('GET', `/v2/outside/status/${queued}`);
    return now.body.workerId === 'w-second';
  });
  const late = await server.call(
    'POST',
    `/v2/outside/job-done/w-first/${queued}?x=1`,
    { output: 'late' },
    { authorization: key },
  );
  assert.equal(late.status, 200, 'a post of the worker that lost it is accepted');
  process.kill(second.pid!, 'SIGKILL');
  const ended = await server.ended('outside', queued);
  assert.equal(ended.status, 'FAILED');
  assert.equal(ended.error, 'job timed out after 1 retries');
  assert.equal(ended.retries, 1);
  const { body } = await server.call('GET', '/v2/outside/health');
  assert.equal((body.jobs as Record<string, number>).retried, 1);
  again.kill('SIGTERM');
});

test('job-take-batch takes several jobs, and SIGTERM drains the worker', async (t) => {
  const server = await sharedEndpoints();
  await server.save('batchy', {});
  const key = await workerKey(server, 'batchy');
  const ids = await Promise.all(
    [1, 2, 3].map(() => server.run('batchy', { do: 'wait', ms: 3000 })),
  );
  const worker = startWorker(t, server, key, 'w-batch', { TEST_CONCURRENCY: '3' });
  await until('all three run concurrently according to its ping', async () => {
    const jobs = await Promise.all(ids.map((id) => server.call('GET', `/api/jobs/${id}`)));
    return jobs.every(({ body }) => body.stage === 'acknowledged' && body.status === 'running');
  });
  const exited = new Promise((resolve) => worker.once('exit', (code) => resolve(code)));
  worker.kill('SIGTERM');
  const late = await server.run('batchy', {});
  for (const id of ids) assert.equal((await server.ended('batchy', id)).status, 'COMPLETED');
  assert.equal(await exited, 0, 'it ends by itself');
  assert.equal((await server.call('GET', `/v2/batchy/status/${late}`)).body.status, 'IN_QUEUE');
});

async function workerKey(server: EndpointServer, id: string): Promise<string> {
  const { body } = await server.call('POST', '/api/keys', {
    scopes: ['worker'],
    subject: `endpoint:${id}`,
  });
  return body.key as string;
}

function startWorker(
  t: TestContext,
  server: EndpointServer,
  key: string,
  id: string,
  env: Record<string, string> = {},
) {
  const endpoint = id === 'w-batch' ? 'batchy' : 'outside';
  const root = `${server.url}/v2/${endpoint}`;
  const child = spawn(python[0]!, [python[1]!], {
    stdio: 'ignore',
    cwd: tempFolder(t),
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      RUNPOD_POD_ID: id,
      RUNPOD_AI_API_KEY: key,
      RUNPOD_PING_INTERVAL: '500',
      RUNPOD_WEBHOOK_GET_JOB: `${root}/job-take/$ID?gpu=CPU`,
      RUNPOD_WEBHOOK_POST_OUTPUT: `${root}/job-done/$RUNPOD_POD_ID/$ID?gpu=CPU`,
      RUNPOD_WEBHOOK_POST_STREAM: `${root}/job-stream/$RUNPOD_POD_ID/$ID?gpu=CPU`,
      RUNPOD_WEBHOOK_PING: `${root}/ping/$RUNPOD_POD_ID?gpu=CPU`,
      ...env,
    },
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

test('a paused queue assigns no jobs; when it resumes, a waiting worker gets the job', async () => {
  const server = await sharedEndpoints();
  await server.save('calm', {});
  const queue = (paused: boolean) => server.call('PUT', '/api/queues/endpoint/calm', { paused });
  assert.equal((await queue(true)).status, 200);
  const id = await server.run('calm', { n: 1 });
  // It polls while the queue is paused and keeps waiting, without a notification for the job.
  const taken = server.call('GET', '/v2/calm/job-take/w1?gpu=x');
  const quick = AbortSignal.timeout(1500);
  const other = fetch(`${server.url}/v2/calm/job-take/w2?gpu=x`, {
    headers: { authorization: `Bearer ${server.key}` },
    signal: quick,
  });
  await assert.rejects(other, { name: 'TimeoutError' });
  assert.equal((await queue(false)).status, 200);
  assert.equal((await taken).body.id, id);
});
