// Requirements of a RunPod-compatible server, line by line, over plain HTTP with a scripted worker. sdk.test.ts and
// mcp-server.test.ts use RunPod's own software, test/kinds/endpoint uses real workers.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { handlerFile, startEndpoints, type EndpointServer } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { listen, textOf } from '../../helpers/listener.ts';
import { until } from '../../helpers/until.ts';

type Json = Record<string, unknown>;
const counts = (value: unknown) => value as Record<string, number>;

test('RunPod checklist', { timeout: 180_000 }, async (t) => {
  const home = tempFolder(t);
  // Webhook receivers are on this machine.
  writeFileSync(join(home, 'config.json'), JSON.stringify({ egress: { allow: ['127.0.0.1'] } }));
  const server = await startEndpoints(t, { home });
  const post = (path: string, body: unknown = '') => server.call('POST', path, body);
  const get = (path: string) => server.call('GET', path);
  const status = async (ep: string, id: string) => (await get(`/v2/${ep}/status/${id}`)).body;
  const worker = (ep: string, name: string) => byHand(server, ep, name);

  // Started first: these take five seconds because of RunPod's own limits, and the rest runs in the meantime.
  await server.save('slow', { recipe: { module: handlerFile }, stopMs: 500 });
  const policy = { executionTimeout: 5000 };
  const tooLong = await server.run('slow', { do: 'ignore', ms: 120_000 }, { policy });

  await server.save('old', {});
  const outlived = await server.run('old', {}, { policy: { ttl: 10_000 } });
  await worker('old', 'w1').take();
  await server.save('dropped', {});
  const dropped = await server.run('dropped', { n: 1 });
  await worker('dropped', 'w1').take();

  await t.test(
    'API: keys, unknown names, bad requests, limits, empty bodies, both methods',
    async () => {
      await server.save('api', { maxQueue: 50, runsPer10s: 5 });
      const raw = { authorization: server.key };
      assert.equal((await server.call('GET', '/v2/api/health', undefined, raw)).status, 200);
      assert.equal((await get('/v2/api/health')).status, 200);
      const bad = await server.call('GET', '/v2/api/health', undefined, {
        authorization: 'Bearer x',
      });
      assert.equal(bad.status, 401);
      assert.equal((await post('/v2/nobody/run', { input: 1 })).status, 404);
      assert.equal((await get('/v2/api/status/nothing')).status, 404);
      assert.equal((await post('/v2/api/run', { policy: {} })).status, 400);
      assert.equal((await post('/v2/api/run', '{"input"')).status, 400);
      for (const wait of ['999', '300001', 'x']) {
        const { status: code, body } = await post(`/v2/api/runsync?wait=${wait}`, { input: 1 });
        assert.equal(code, 400);
        assert.equal(body.error, 'wait is invalid; must be between 1000 and 300000');
      }
      const run = await post('/v2/api/run', { input: {} });
      assert.equal(run.status, 200, 'never 201 or 202');
      assert.deepEqual(Object.keys(run.body).toSorted(), ['id', 'status']);
      const id = run.body.id as string;
      for (const method of ['GET', 'POST']) {
        const body = method === 'POST' ? '' : undefined;
        for (const path of [
          `status/${id}`,
          `status-sync/${id}?wait=1000`,
          `stream/${id}?wait=1000`,
        ])
          assert.equal((await server.call(method, `/v2/api/${path}`, body)).status, 200, path);
      }
      assert.equal((await post(`/v2/api/cancel/${id}`)).status, 200, 'an empty body is valid');
      assert.equal((await post(`/v2/api/retry/${id}`)).status, 400, 'CANCELLED is not retried');
      assert.equal((await post('/v2/api/purge-queue')).status, 200);
      const limited = await until('the rate limit', async () => {
        const answer = await post('/v2/api/run', { input: 1 });
        return answer.status === 200 ? undefined : answer;
      });
      assert.equal(limited.status, 429);
      assert.match(
        limited.body.error as string,
        /5 submissions to endpoint api within ten seconds/,
      );
      assert.ok(Number(limited.headers.get('retry-after')) >= 1);
    },
  );

  await t.test('lifecycle: results, errors, progress, late progress', async () => {
    await server.save('life', {});
    const { take, done } = worker('life', 'w1');
    const end = async (body: unknown) => {
      const id = await server.run('life', {});
      const job = await take();
      assert.deepEqual(job, { id, input: {} }, 'an empty input is delivered');
      await done(id, body);
      return status('life', id);
    };
    const good = await end({ output: { a: 1 } });
    assert.equal(good.status, 'COMPLETED');
    assert.deepEqual(good.output, { a: 1 });
    assert.equal(good.workerId, 'w1');
    assert.ok(Number.isInteger(good.delayTime) && Number.isInteger(good.executionTime));
    assert.equal('retries' in good, false);
    const thrown = JSON.stringify({ error_type: "<class 'ValueError'>", error_message: 'bad' });
    const failed = await end({ error: thrown });
    assert.deepEqual([failed.status, failed.error], ['FAILED', thrown]);
    const kept = await end({ error: 'x', output: { rest: 1 } });
    assert.deepEqual([kept.status, kept.error, kept.output], ['FAILED', 'x', { rest: 1 }]);
    assert.equal((await end({ error: { code: 7 } })).status, 'FAILED', 'an error object');
    const bare = await end({});
    assert.equal(bare.status, 'COMPLETED');
    assert.equal('output' in bare, false);

    const id = await server.run('life', {});
    assert.deepEqual(await status('life', id), { id, status: 'IN_QUEUE' });
    await take();
    await done(id, { status: 'IN_PROGRESS', output: { pct: 50 } });
    const running = await status('life', id);
    assert.deepEqual([running.status, running.output], ['IN_PROGRESS', { pct: 50 }]);
    await done(id, { output: 'whole' });
    await done(id, { status: 'IN_PROGRESS', output: 'late' });
    await done(id, { output: 'second' });
    const over = await status('life', id);
    assert.deepEqual([over.status, over.output], ['COMPLETED', 'whole']);
  });

  await t.test('runsync returns early on completion, and the id on timeout', async () => {
    await server.save('sync', {});
    const { take, done } = worker('sync', 'w1');
    const answered = post('/v2/sync/runsync?wait=60000', { input: { n: 1 } });
    await done((await take()).id, { output: 'early' });
    assert.equal((await answered).body.output, 'early');
    const late = await post('/v2/sync/runsync?wait=1000', { input: { n: 2 } });
    assert.equal(late.status, 200);
    assert.equal(late.body.status, 'IN_QUEUE');
    const id = late.body.id as string;
    assert.equal((await status('sync', id)).status, 'IN_QUEUE');
    const waiting = get(`/v2/sync/status-sync/${id}?wait=60000`);
    await take();
    await done(id, { output: 'late' });
    assert.equal((await waiting).body.output, 'late');
  });

  await t.test('stream returns each chunk once, then the final status alone', async () => {
    await server.save('words', {});
    const { take, done, chunk } = worker('words', 'w1');
    const id = await server.run('words', {});
    const path = `/v2/words/stream/${id}`;
    assert.deepEqual((await get(`${path}?wait=1000`)).body, { status: 'IN_QUEUE', stream: [] });
    await take();
    await chunk(id, 'a');
    assert.deepEqual((await get(path)).body, { status: 'IN_PROGRESS', stream: [{ output: 'a' }] });
    await chunk(id, 'b');
    await chunk(id, { c: 1 });
    await done(id, { output: [] });
    await chunk(id, 'late');
    const rest = [{ output: 'b' }, { output: { c: 1 } }];
    assert.deepEqual((await post(path)).body, { status: 'COMPLETED', stream: rest });
    // RunPod's Python client continues until this one.
    assert.deepEqual((await get(path)).body, { status: 'COMPLETED', stream: [] });
  });

  await t.test('cancel: a queued job is never taken, a running one is stopped', async () => {
    await server.save('stop', {});
    const { take, done, stops } = worker('stop', 'w1');
    const queued = await server.run('stop', { n: 0 });
    assert.deepEqual((await post(`/v2/stop/cancel/${queued}`)).body, {
      id: queued,
      status: 'CANCELLED',
    });
    const running = await server.run('stop', { n: 1 });
    assert.equal((await take()).id, running, 'the cancelled one is gone');
    const reported = stops();
    await post(`/v2/stop/cancel/${running}`);
    assert.deepEqual(await reported, { jobsToStop: [running] });
    assert.deepEqual(await stops(), { jobsToStop: [running] }, 'repeated while the job runs');
    assert.equal((await done(running, { output: 'too late' })).status, 200);
    const after = await status('stop', running);
    assert.deepEqual([after.status, after.output], ['CANCELLED', undefined]);
    assert.equal((await post(`/v2/stop/cancel/${running}`)).body.status, 'CANCELLED');

    // A stopped handler posts nothing. The worker's next poll shows that it runs nothing.
    const silent = await server.run('stop', { n: 2 });
    await take();
    await post(`/v2/stop/cancel/${silent}`);
    assert.deepEqual(await stops(), { jobsToStop: [silent] });
    const next = await server.run('stop', { n: 3 });
    assert.equal((await take()).id, next);
    const poll = { endpointId: 'stop', workerId: 'w1', waitMs: 1500 };
    assert.deepEqual((await post('/api/poll_stops', poll)).body, { jobIds: [] });
  });

  await t.test(
    'retry accepts only FAILED and TIMED_OUT, keeps the id, drops the output and is counted',
    async () => {
      await server.save('again', {});
      const { take, done } = worker('again', 'w1');
      const id = await server.run('again', { n: 1 });
      assert.equal((await post(`/v2/again/retry/${id}`)).status, 400, 'IN_QUEUE');
      await take();
      await done(id, { error: 'x', output: 'old' });
      assert.deepEqual((await post(`/v2/again/retry/${id}`)).body, { id, status: 'IN_QUEUE' });
      assert.equal('output' in (await status('again', id)), false);
      assert.deepEqual(await take(), { id, input: { n: 1 } }, 'with its input');
      await done(id, { output: 'new' });
      const job = await status('again', id);
      assert.deepEqual([job.status, job.output, job.retries], ['COMPLETED', 'new', 1]);
      assert.equal((await post(`/v2/again/retry/${id}`)).status, 400, 'COMPLETED');
      await until('health counts it', async () => {
        const { body } = await get('/v2/again/health');
        return counts(body.jobs).retried === 1;
      });
    },
  );

  await t.test('purge and health: counts match the job list', async () => {
    await server.save('many', {});
    const { take } = worker('many', 'w1');
    const first = await server.run('many', {});
    await take();
    for (let i = 0; i < 5; i++) await server.run('many', { i });
    assert.equal(counts((await get('/v2/many/health')).body.jobs).inQueue, 5);
    assert.deepEqual((await post('/v2/many/purge-queue')).body, {
      removed: 5,
      status: 'completed',
    });
    assert.equal((await status('many', first)).status, 'IN_PROGRESS', 'running is untouched');
    const { body } = await get('/v2/many/health');
    const jobs = { completed: 0, failed: 0, inProgress: 1, inQueue: 0, retried: 0 };
    assert.deepEqual(body.jobs, jobs);
    const fields = ['idle', 'initializing', 'ready', 'running', 'throttled', 'unhealthy'];
    assert.deepEqual(Object.keys(body.workers as Json).toSorted(), fields);
    assert.equal(counts(body.workers).running, 1);
    const list = (await get('/v2/many/requests')).body.requests as { status: string }[];
    const words = list.map((job) => job.status).toSorted();
    assert.deepEqual(words, [...Array<string>(5).fill('CANCELLED'), 'IN_PROGRESS']);
    const metrics = (await get('/v2/many/metrics')).body;
    assert.deepEqual(metrics.readyWorkers, ['w1']);
  });

  await t.test('policy: low priority runs last and two workers share the queue', async () => {
    await server.save('order', {});
    const low = await server.run('order', {}, { policy: { lowPriority: true } });
    const one = await server.run('order', {});
    const two = await server.run('order', {});
    const taken = [await worker('order', 'w1').take(), await worker('order', 'w2').take()];
    assert.deepEqual(
      taken.map(({ id }) => id),
      [one, two],
    );
    assert.equal((await worker('order', 'w3').take()).id, low);
    assert.equal((await status('order', two)).workerId, 'w2');
    const ttl = await get(`/v2/order/status/${low}?ttl=60000`);
    assert.equal(ttl.body.status, 'IN_PROGRESS', '/status resets the ttl');
  });

  await t.test(
    'webhook: the whole job, signed, repeated after a rejection, sent on FAILED and CANCELLED',
    async () => {
      const calls: { headers: Json; body: Json; text: string }[] = [];
      const url = await listen(t, async (request, response) => {
        const text = await textOf(request);
        calls.push({ headers: request.headers, body: JSON.parse(text) as Json, text });
        response.writeHead(calls.length === 1 ? 500 : 200).end();
      });
      const webhook = `${url}/hook`;
      await server.save('hooked', {});
      const { take, done } = worker('hooked', 'w1');
      const good = await server.run('hooked', { n: 1 }, { webhook });
      assert.equal((await take()).webhook, webhook, 'the worker sees it');
      await done(good, { output: 'fine' });
      await until('the first call', () => calls.length === 1);
      assert.equal((await status('hooked', good)).status, 'COMPLETED', 'the job is unaffected');
      const failed = await server.run('hooked', { n: 2 }, { webhook });
      await take();
      await done(failed, { error: 'no luck', output: { half: 1 } });
      const stopped = await server.run('hooked', { n: 3 }, { webhook });
      await post(`/v2/hooked/cancel/${stopped}`);
      await until('all were delivered, the rejected one twice', () => calls.length === 4);
      const bodies = new Map(calls.map(({ body }) => [body.id, body]));
      const { delayTime, executionTime, ...rest } = bodies.get(good)!;
      assert.ok(Number.isInteger(delayTime) && Number.isInteger(executionTime));
      const job = { id: good, input: { n: 1 }, output: 'fine', status: 'COMPLETED' };
      assert.deepEqual(rest, { ...job, webhook, workerId: 'w1' });
      assert.equal(calls.filter(({ body }) => body.id === good).length, 2);
      const bad = bodies.get(failed)!;
      assert.deepEqual([bad.status, bad.error, bad.output], ['FAILED', 'no luck', { half: 1 }]);
      assert.equal(bodies.get(stopped)!.status, 'CANCELLED');
      const { webhookSecret } = (await get('/api/endpoints/hooked')).body;
      for (const { headers, text } of calls) {
        assert.match(headers['webhook-signature'] as string, /^v1,/);
        const mac = createHmac('sha256', webhookSecret as string)
          .update(text)
          .digest('hex');
        assert.equal(headers['x-errand-signature-256'], `sha256=${mac}`);
      }
    },
  );

  await t.test(
    'worker: takes several jobs concurrently up to its count; a failed fitness check is reported',
    async () => {
      await server.save('batchy', {});
      const ids: string[] = [];
      for (let n = 0; n < 5; n++) ids.push(await server.run('batchy', { n }));
      const path = '/v2/batchy/job-take-batch/w1?gpu=x&batch_size=3&job_in_progress=0';
      const taken = (await get(path)).body as unknown as { id: string }[];
      assert.deepEqual(
        taken.map(({ id }) => id),
        ids.slice(0, 3),
      );
      await get(
        `/v2/batchy/ping/w1?gpu=x&job_id=${ids.slice(0, 3).join('%2C')}&runpod_version=1.12.0`,
      );
      const { body } = await get('/v2/serverless/batchy/workers');
      assert.equal(counts(body.summary).running, 1);
      const reason = 'status=unhealthy&check=memory&reason=only+1+GB';
      assert.equal((await get(`/v2/batchy/ping/w2?gpu=x&${reason}`)).status, 200);
      assert.equal(counts((await get('/v2/batchy/health')).body.workers).unhealthy, 1);
      const log = await get('/api/endpoints/batchy/log?workerId=w2');
      assert.match((log.body.lines as { line: string }[])[0]!.line, /unhealthy: memory: only 1 GB/);
    },
  );

  await t.test('a job whose result the worker dropped is delivered once more', async () => {
    assert.equal((await status('dropped', dropped)).status, 'IN_PROGRESS');
    const more = worker('dropped', 'w1').take();
    assert.equal((await worker('dropped', 'w2').take()).id, dropped, 'to another worker');
    const again = await status('dropped', dropped);
    assert.deepEqual([again.retries, again.workerId], [1, 'w2']);
    const other = await server.run('dropped', { n: 2 });
    assert.equal((await more).id, other);
    const bad = await until('it was given up', async () => {
      const [w2, w3] = ['w2', 'w3'].map((name) => worker('dropped', name).take(1000));
      await Promise.all([w2, w3]);
      const now = await status('dropped', dropped);
      return now.status === 'FAILED' ? now : undefined;
    });
    assert.deepEqual([bad.error, bad.retries], ['job timed out after 1 retries', 1]);
  });

  await t.test(
    'policy: executionTimeout stops the job as FAILED, and it can be retried',
    async () => {
      const over = await server.ended('slow', tooLong);
      assert.deepEqual([over.status, over.error], ['FAILED', 'executionTimeout exceeded']);
      assert.equal((await post(`/v2/slow/retry/${tooLong}`)).status, 200);
      await post(`/v2/slow/cancel/${tooLong}`);
    },
  );

  await t.test('policy: ttl ends a running job, which stays readable', async () => {
    const over = await server.ended('old', outlived);
    assert.equal(over.status, 'TIMED_OUT');
    assert.match(over.error as string, /time to live/);
    assert.deepEqual(await worker('old', 'w1').stops(), { jobsToStop: [outlived] });
    assert.equal((await post(`/v2/old/retry/${outlived}`)).body.status, 'IN_QUEUE');
  });
});

/** A scripted worker of one endpoint. */
function byHand(server: EndpointServer, endpoint: string, name: string) {
  const root = `/v2/${endpoint}`;
  const form = { 'content-type': 'application/x-www-form-urlencoded', charset: 'utf-8' };
  const send = (path: string, body: unknown) =>
    server.call('POST', `${root}/${path}`, JSON.stringify(body), form);
  return {
    take: async (waitMs?: number): Promise<{ id: string } & Json> => {
      const path = `${root}/job-take/${name}?gpu=CPU&job_in_progress=0`;
      if (waitMs === undefined)
        return (await server.call('GET', path)).body as { id: string } & Json;
      const input = { endpointId: endpoint, workerId: name, waitMs, idle: true };
      const { jobs } = (await server.call('POST', '/api/take_jobs', input)).body;
      return (jobs as ({ id: string } & Json)[])[0] ?? { id: '' };
    },
    done: (id: string, body: unknown) =>
      send(`job-done/${name}/${id}?gpu=CPU&isStream=false`, body),
    chunk: (id: string, output: unknown) =>
      send(`job-stream/${name}/${id}?gpu=CPU&isStream=false`, { output }),
    stops: async () => (await server.call('GET', `${root}/job-stop/${name}?gpu=CPU`)).body,
  };
}
