// Load and unusual input: hundreds of polling workers (a thousand in a deep run), inputs at the limits, numbers that JSON cannot represent, and
// posts about jobs of other workers.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { test } from 'node:test';
import { isDeep } from '../../helpers/deep.ts';
import type { EndpointServer } from '../../helpers/endpoint.ts';
import { sharedEndpoints } from '../../helpers/shared-endpoints.ts';
import { until } from '../../helpers/until.ts';

const crowd = isDeep ? 1000 : 200;

test(
  'many workers poll concurrently, and every job goes to exactly one',
  { timeout: 120_000 },
  async (t) => {
    const server = await sharedEndpoints();
    await server.save('crowd', {});
    const agent = new Agent({ maxSockets: Infinity, keepAlive: false });
    t.after(() => agent.destroy());
    const stop = new AbortController();
    const polls = Array.from({ length: crowd }, (_, i) =>
      take(server, agent, `w${i}`, stop.signal),
    );
    await until(
      'all are known',
      async () => {
        const { body } = await server.call('GET', '/v2/crowd/health');
        return (body.workers as Record<string, number>).idle === crowd;
      },
      90_000,
    );
    const one = await server.run('crowd', { first: true });
    const first = await Promise.race(polls);
    assert.equal(first?.id, one);
    const inputs = Array.from({ length: crowd - 1 }, (_, n) => ({ n }));
    await server.call('POST', '/api/endpoints/crowd/batches', { inputs });
    const jobs = await Promise.all(polls);
    assert.equal(new Set(jobs.map((job) => job!.id)).size, crowd, 'one job per worker');
    const { body } = await server.call('GET', '/v2/crowd/health');
    assert.equal((body.jobs as Record<string, number>).inProgress, crowd);
    const gone = take(server, agent, 'late', stop.signal);
    stop.abort();
    assert.equal(await gone, undefined);
    // A disconnected worker gets nothing. The next job goes to the one that waits.
    const next = take(server, agent, 'next', new AbortController().signal);
    const id = await server.run('crowd', {});
    assert.equal((await next)?.id, id);
  },
);

test('inputs of 20 and 21 MB, integers above 2^53, NaN and deep nesting', async (t) => {
  const server = await sharedEndpoints();
  await server.save('odd', {});
  const post = (path: string, body: string) => server.call('POST', `/v2/odd/${path}`, body);
  const sized = (bytes: number) => `{"input":"${'x'.repeat(bytes - 12)}"}`;
  const mebibyte = 1024 * 1024;
  const whole = await post('runsync?wait=1000', sized(20 * mebibyte));
  assert.equal(whole.body.status, 'IN_QUEUE', 'exactly 20 MB is accepted');
  const over = await post('runsync?wait=1000', sized(21 * mebibyte));
  assert.equal(over.status, 413);
  assert.match(JSON.stringify(over.body), /20971520/, 'it names the limit');
  assert.equal((await post('run', sized(10 * mebibyte))).status, 200);
  assert.equal((await post('run', sized(10 * mebibyte + 1))).status, 413);
  const agent = new Agent();
  t.after(() => agent.destroy());
  const none = new AbortController().signal;
  const large = await take(server, agent, 'w1', none, 'odd');
  assert.equal((large!.input as string).length, 20 * mebibyte - 12, 'and reaches its worker');
  await server.call('POST', '/v2/odd/purge-queue', '');

  assert.equal((await post('run', '{"input":{"n":NaN}}')).status, 400, 'NaN is not JSON');
  const deep = (levels: number) => `{"input":${'['.repeat(levels)}${']'.repeat(levels)}}`;
  const refused = await post('run', deep(5000));
  assert.equal(refused.status, 400);
  assert.match(refused.body.error as string, /deep|nest/i);
  assert.equal((await post('run', deep(100))).status, 200);
  await server.call('POST', '/v2/odd/purge-queue', '');
  assert.equal((await post('run', '{"input":{"n":9007199254740993}}')).status, 200);
  const taken = await raw(server, agent, '/v2/odd/job-take/w2?gpu=x', none);
  assert.match(taken, /"n":9007199254740993/, 'digits are kept on the way in');
});

test('a post about an unknown job or a job of another endpoint changes nothing', async (t) => {
  const server = await sharedEndpoints();
  await server.save('mine', {});
  await server.save('yours', {});
  const id = await server.run('mine', {});
  const agent = new Agent();
  t.after(() => agent.destroy());
  await take(server, agent, 'w1', new AbortController().signal, 'mine');
  for (const [endpoint, worker, job] of [
    ['yours', 'w1', id],
    ['mine', 'w2', id],
    ['mine', 'w1', 'job_0000000000000000'],
  ])
    for (const verb of ['job-done', 'job-stream']) {
      const path = `/v2/${endpoint}/${verb}/${worker}/${job}?x=1`;
      assert.equal((await server.call('POST', path, { output: 'not yours' })).status, 200, path);
    }
  const { body } = await server.call('GET', `/v2/mine/status/${id}`);
  assert.equal(body.status, 'IN_PROGRESS');
  assert.equal((await server.call('GET', `/v2/yours/status/${id}`)).status, 404);
  assert.equal((await server.call('POST', `/v2/yours/cancel/${id}`, '')).status, 404);
  assert.equal((await server.call('GET', `/v2/yours/stream/${id}?after=0`)).status, 404);
  const stream = await server.call('GET', `/v2/mine/stream/${id}?wait=1000`);
  assert.deepEqual(stream.body.stream, []);
});

test('an unhealthy worker is healthy again when it polls for work', async (t) => {
  const server = await sharedEndpoints();
  await server.save('sick', {});
  const agent = new Agent();
  t.after(() => agent.destroy());
  const ping = '/v2/sick/ping/gpu-1?status=unhealthy&check=memory&reason=low&runpod_version=1';
  assert.equal((await server.call('GET', ping)).status, 200);
  const workers = async () =>
    (await server.call('GET', '/v2/sick/health')).body.workers as Record<string, number>;
  assert.deepEqual([(await workers()).unhealthy, (await workers()).ready], [1, 0]);
  await server.run('sick', {});
  await take(server, agent, 'gpu-1', new AbortController().signal, 'sick');
  assert.deepEqual([(await workers()).unhealthy, (await workers()).running], [0, 1]);
});

async function take(
  server: EndpointServer,
  agent: Agent,
  worker: string,
  signal: AbortSignal,
  endpoint = 'crowd',
): Promise<{ id: string; input: unknown } | undefined> {
  try {
    const text = await raw(server, agent, `/v2/${endpoint}/job-take/${worker}?gpu=x`, signal);
    return JSON.parse(text) as { id: string; input: unknown };
  } catch {
    return undefined;
  }
}

function raw(server: EndpointServer, agent: Agent, path: string, signal: AbortSignal) {
  const options = { agent, signal, headers: { authorization: server.key } };
  return new Promise<string>((resolve, reject) => {
    const call = request(`${server.url}${path}`, options, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts).toString('utf8')));
    });
    call.on('error', reject);
    call.end();
  });
}
