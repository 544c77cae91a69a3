// kill -9 of the server with a thousand jobs in every state: nothing is lost, no acknowledged result runs again, and
// the next server adopts the workers.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { end, kill, serve, type EndpointClient } from '../../helpers/endpoint-process.ts';
import { freePort } from '../../helpers/port.ts';
import { handlerFile } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const jobs = 1000;

test('kill -9 of the server loses no job and runs none twice', { timeout: 200_000 }, async (t) => {
  const started: number[] = [];
  t.after(() => started.forEach((pid) => kill(pid)));
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  const runs = join(folder, 'runs');
  const handler = join(folder, 'handler.mjs');
  writeFileSync(runs, '');
  writeFileSync(
    handler,
    `import { appendFileSync } from 'node:fs';
     export default async ({ id, input }) => {
       appendFileSync(${JSON.stringify(runs)}, id + '\\n');
       await new Promise((resolve) => setTimeout(resolve, 10));
       if (input.n % 10 === 0) return { error: 'every tenth' };
       return { n: input.n };
     };`,
  );
  const port = await freePort();
  const first = await serve(t, home, port);
  started.push(first.pid);
  const timed = await outlive(first);
  await first.save('work', { recipe: { module: handler }, maxWorkers: 1, concurrency: 16 });
  const cancelled = await first.run('work', { n: 1 }, { policy: { lowPriority: true } });
  await first.call('POST', `/v2/work/cancel/${cancelled}`, '');
  await timed.check(first);
  const inputs = Array.from({ length: jobs }, (_, n) => ({ n }));
  const batch = await first.call('POST', '/api/endpoints/work/batches', { inputs });
  assert.equal(batch.status, 200);
  const batchId = batch.body.id as string;
  const done = await until('a part is done', async () => {
    const ids = await finished(first, batchId);
    return ids.length >= 100 ? ids : undefined;
  });
  assert.ok(done.length < jobs, 'the kill comes in the middle');
  const workers = await first.call('GET', '/api/endpoints/work/workers');
  const parked = await park(first);
  kill(first.pid);

  const second = await serve(t, home, port);
  started.push(second.pid);
  const adopted = await second.call('GET', '/api/endpoints/work/workers');
  const idOf = (answer: typeof workers) => (answer.body.workers as { id: string }[])[0]?.id;
  assert.equal(idOf(adopted), idOf(workers), 'the worker is taken over');
  await parked.check(second);
  await timed.check(second);
  await until(
    'the batch is over',
    async () => (await second.call('GET', `/api/jobs/${batchId}`)).body.status === 'completed',
    120_000,
  );
  const { body } = await second.call('GET', `/api/jobs/${batchId}`);
  const { total, completed, failed } = body.counts as Record<string, number>;
  assert.deepEqual([total, completed, failed], [jobs, jobs - jobs / 10, jobs / 10]);
  const times = new Map<string, number>();
  for (const id of readFileSync(runs, 'utf8').trim().split('\n'))
    times.set(id, (times.get(id) ?? 0) + 1);
  assert.equal(times.size, jobs, 'every job ran');
  for (const id of done) assert.equal(times.get(id), 1, `${id} was finished and ran again`);
  const still = await second.call('GET', `/v2/work/status/${cancelled}`);
  assert.equal(still.body.status, 'CANCELLED');
  await timed.checkWaited(second);
  for (const id of ['work', 'out', 'timed']) await second.call('DELETE', `/api/endpoints/${id}`);
  await until('its worker is gone', async () => {
    const found = await second.call('GET', '/api/endpoints');
    return (found.body.endpoints as unknown[]).length === 0;
  });
  await end(second.pid);
});

test(
  'kill -9 in the middle of a stream keeps every chunk exactly once',
  { timeout: 120_000 },
  async (t) => {
    const home = join(tempFolder(t), 'home');
    const port = await freePort();
    const first = await serve(t, home, port);
    await first.save('words', { recipe: { module: handlerFile }, maxWorkers: 1 });
    const id = await first.run('words', { do: 'stream', count: 60, ms: 30 });
    const chunks = async (from: EndpointClient) => {
      const { body } = await from.call('GET', `/api/jobs/${id}/stream?limit=1000`);
      return body.chunks as { output: { index: number } }[];
    };
    await until('it streams', async () => (await chunks(first)).length >= 5);
    kill(first.pid);
    const second = await serve(t, home, port);
    assert.equal((await second.ended('words', id)).status, 'COMPLETED');
    const seen = (await chunks(second)).map(({ output }) => output.index);
    assert.deepEqual(
      seen,
      Array.from({ length: 60 }, (_, i) => i),
    );
    await end(second.pid);
  },
);

async function finished(server: EndpointClient, batchId: string): Promise<string[]> {
  const { body } = await server.call('GET', `/api/batches/${batchId}/jobs?limit=1000`);
  return (body.jobs as { id: string; status: string }[])
    .filter(({ status }) => status === 'completed' || status === 'failed')
    .map(({ id }) => id);
}

/** Jobs with deadlines: one exceeds its execution timeout before the kill, one its ttl some time after it. */
async function outlive(server: EndpointClient) {
  await server.save('timed', { leaseMs: 60_000 });
  const policy = { executionTimeout: 5000 };
  const ran = await server.run('timed', {}, { policy });
  await server.call('GET', '/v2/timed/job-take/w1?gpu=x');
  const waited = await server.run('timed', {}, { policy: { ttl: 10_000 } });
  const inner = async (from: EndpointClient, id: string) => {
    const { body } = await from.call('GET', `/api/jobs/${id}`);
    return [body.status, (body.error as { code: string } | undefined)?.code];
  };
  return {
    check: async (from: EndpointClient) => {
      const { status, error } = await from.ended('timed', ran);
      assert.deepEqual([status, error], ['FAILED', 'executionTimeout exceeded']);
      assert.deepEqual(await inner(from, ran), ['timed_out', 'executionTimeout']);
      const late = await from.call('POST', `/v2/timed/job-done/w1/${ran}?x=1`, { output: 'late' });
      assert.equal(late.status, 200);
    },
    checkWaited: async (from: EndpointClient) => {
      assert.equal((await from.ended('timed', waited)).status, 'TIMED_OUT');
      assert.deepEqual(await inner(from, waited), ['timed_out', 'queueTimeout']);
    },
  };
}

/** One job in each state that an external worker can bring it to, and the expected result of each. */
async function park(server: EndpointClient) {
  await server.save('out', { leaseMs: 60_000 });
  const names = ['dispatched', 'acknowledged', 'progress', 'streaming', 'completed', 'failed'];
  const ids = new Map<string, string>();
  for (const name of names) {
    ids.set(name, await server.run('out', { name }));
    await server.call('GET', '/v2/out/job-take/w1?gpu=x');
  }
  const post = (from: EndpointClient, verb: string, name: string, body: unknown) =>
    from.call('POST', `/v2/out/${verb}/w1/${ids.get(name)}?x=1`, body);
  await server.call('GET', `/v2/out/ping/w1?job_id=${ids.get('acknowledged')}`);
  await post(server, 'job-done', 'progress', { status: 'IN_PROGRESS', output: 'half' });
  await post(server, 'job-stream', 'streaming', { output: 'first' });
  await post(server, 'job-done', 'completed', { output: 'kept' });
  await post(server, 'job-done', 'failed', { error: 'kept' });
  ids.set('queued', await server.run('out', {}));
  ids.set('low', await server.run('out', {}, { policy: { lowPriority: true } }));
  const status = async (from: EndpointClient, name: string) =>
    (await from.call('GET', `/v2/out/status/${ids.get(name)}`)).body;
  return {
    check: async (next: EndpointClient) => {
      for (const name of ['queued', 'low'])
        assert.equal((await status(next, name)).status, 'IN_QUEUE', name);
      assert.equal((await status(next, 'completed')).output, 'kept');
      assert.equal((await status(next, 'failed')).error, 'kept');
      assert.equal((await status(next, 'progress')).output, 'half');
      await post(next, 'job-stream', 'streaming', { output: 'second' });
      // Their worker keeps running and posts its results to the next server.
      for (const name of names.slice(0, 4)) {
        assert.equal((await status(next, name)).status, 'IN_PROGRESS', name);
        await post(next, 'job-done', name, { output: name });
        const { status: word, output, retries } = await status(next, name);
        assert.deepEqual([word, output, retries], ['COMPLETED', name, undefined]);
      }
      const stream = await next.call('GET', `/v2/out/stream/${ids.get('streaming')}`);
      assert.deepEqual(stream.body.stream, [{ output: 'first' }, { output: 'second' }]);
    },
  };
}
