// Remotes that fail at the worst moment: a lost response, a server killed while sending, a remote that deletes the
// job, one that cannot be queried. Nothing is sent twice or lost silently.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { kill, serve } from '../../../helpers/endpoint-process.ts';
import { freePort } from '../../../helpers/port.ts';
import { handlerFile, startEndpoints } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { answer, countThere, fake, isRun, proxy } from '../../../helpers/remote.ts';
import { until } from '../../../helpers/until.ts';

process.env.TEST_FAULT_KEY = 'some-key';

test('another Errand that times out after accepting has the job once', async (t) => {
  const far = await startEndpoints(t);
  process.env.TEST_FAR_KEY = far.key;
  await far.save('there', { recipe: { module: handlerFile }, maxWorkers: 1 });
  const near = await startEndpoints(t);
  // The first submissions succeed there, but their responses are lost.
  let deaf = 3;
  let lostChunks = 0;
  const line = await proxy(
    t,
    far.url,
    (incoming) =>
      (isRun(incoming) && deaf-- > 0) || (incoming.url!.includes('/stream/') && lostChunks-- > 0),
  );
  const remote = {
    baseUrl: line.url,
    endpointId: 'there',
    keyEnv: 'TEST_FAR_KEY',
    timeoutMs: 1000,
  };
  await near.save('here', { remote });
  const ids = await Promise.all([1, 2, 3, 4].map((n) => near.run('here', { n })));
  for (const [i, id] of ids.entries())
    assert.deepEqual((await near.ended('here', id)).output, { n: i + 1 });
  assert.ok(deaf < 0);
  assert.equal(await countThere(far), 4);

  const failed = await near.ended('here', await near.run('here', { do: 'throw' }));
  assert.equal(failed.status, 'FAILED');
  await near.call('POST', `/v2/here/retry/${failed.id as string}`, '');
  const again = await near.ended('here', failed.id as string);
  assert.deepEqual([again.status, again.retries], ['FAILED', 1]);
  assert.equal(await countThere(far), 5, 'a retry there does not create a job');

  // Everything is copied here, so a later deletion on the remote loses nothing.
  const big = await near.run('here', { do: 'large', count: 2_000_000 });
  assert.equal(((await near.ended('here', big)).output as string).length, 2_000_000);
  // It has ended when its chunks are requested, and the first responses are lost.
  lostChunks = 2;
  const streamed = await near.run('here', { do: 'stream', count: 3 });
  await near.ended('here', streamed);
  await far.call('DELETE', '/api/endpoints/there');
  const kept = await near.call('GET', `/v2/here/status/${big}`);
  assert.equal((kept.body.output as string).length, 2_000_000);
  const chunks = await near.call('GET', `/v2/here/stream/${streamed}`);
  assert.equal((chunks.body.stream as unknown[]).length, 3);
});

test(
  'after kill -9 during a send, the next server queries the remote before it sends',
  { timeout: 120_000 },
  async (t) => {
    const far = await startEndpoints(t);
    process.env.TEST_FAR_KEY = far.key;
    await far.save('there', { recipe: { module: handlerFile }, maxWorkers: 1 });
    let deaf = true;
    const line = await proxy(t, far.url, (incoming) => isRun(incoming) && deaf);
    const home = join(tempFolder(t), 'home');
    const port = await freePort();
    const first = await serve(t, home, port);
    const remote = { baseUrl: line.url, endpointId: 'there', keyEnv: 'TEST_FAR_KEY' };
    await first.save('here', { remote });
    const id = await first.run('here', { n: 1 });
    await until('it arrived there and no answer came', async () => (await countThere(far)) === 1);
    kill(first.pid);
    deaf = false;
    const second = await serve(t, home, port);
    t.after(() => kill(second.pid));
    const job = await second.ended('here', id);
    assert.deepEqual(job.output, { n: 1 });
    assert.equal(await countThere(far), 1, 'it was asked for, not sent again');
    kill(second.pid);
  },
);

test("a submission without a response from RunPod's cloud fails with submitUnknown", async (t) => {
  const near = await startEndpoints(t);
  const sockets = new Set<unknown>();
  const inputs: number[] = [];
  const cloud = await fake(t, async (incoming, response, body) => {
    if (!isRun(incoming)) return answer(response, 200, { requests: [] });
    sockets.add(incoming.socket);
    const { n } = (body as { input: { n: number } }).input;
    inputs.push(n);
    // Accepted, then the connection breaks.
    if (n === 0) return void incoming.socket.destroy();
    return answer(response, 400, { error: 'no more today' });
  });
  await near.save('cloud', { remote: { ...cloud, keyEnv: 'TEST_FAULT_KEY' } });
  const lost = await near.ended('cloud', await near.run('cloud', { n: 0 }));
  assert.equal(lost.status, 'FAILED');
  assert.match(lost.error as string, /no response came.*cannot report whether it has the job/);
  const shown = await near.call('GET', `/api/jobs/${lost.id as string}`);
  const error = shown.body.error as { code: string; hint: string };
  assert.equal(error.code, 'submitUnknown');
  assert.match(error.hint, /retry_job sends it again/);
  for (const n of [1, 2, 3]) await near.ended('cloud', await near.run('cloud', { n }));
  assert.deepEqual(inputs, [0, 1, 2, 3], 'each was sent once');
  assert.equal(sockets.size, 4, 'each submit had a connection of its own');
});

test('a remote that calls back, deletes a job, or rejects the key for a while', async (t) => {
  const near = await startEndpoints(t);
  const jobs = new Map<string, { status: string; webhook: string }>();
  let locked = 0;
  const cloud = await fake(t, async (incoming, response, body) => {
    const [, , route, id = ''] = incoming.url!.split(/[/?]/);
    if (route === 'run') {
      const made = `r${jobs.size}`;
      const { webhook } = body as { webhook: string };
      jobs.set(made, { status: 'IN_PROGRESS', webhook });
      return answer(response, 200, { id: made, status: 'IN_QUEUE' });
    }
    if (route === 'status' && locked > 0 && locked--)
      return answer(response, 401, { error: 'key is being rotated' });
    const job = jobs.get(id);
    if (!job) return answer(response, 404, { error: 'job not found' });
    if (route === 'stream') return answer(response, 200, { status: job.status, stream: [] });
    return answer(response, 200, { id, status: job.status, output: `of ${id}` });
  });
  const remote = { ...cloud, keyEnv: 'TEST_FAULT_KEY', callbackUrl: near.url };
  await near.save('cloud', { remote });
  const handleCallback = await near.run('cloud', {});
  const forgotten = await near.run('cloud', {});
  await until('both are there', () => jobs.size === 2);
  locked = 2;
  await until('the key was turned away', () => locked === 0);
  jobs.get('r0')!.status = 'COMPLETED';
  const { webhook } = jobs.get('r0')!;
  const forged = await fetch(webhook.replace(/token=.*/, 'token=no'), { method: 'POST' });
  assert.equal(forged.status, 404, 'a callback is authenticated');
  assert.equal((await fetch(webhook, { method: 'POST', body: '{}' })).status, 200);
  const byId = new Map<unknown, string>();
  const done = await Promise.race([handleCallback, forgotten].map((id) => near.ended('cloud', id)));
  byId.set(done.output, done.id as string);
  assert.ok(byId.has('of r0'));
  jobs.delete('r1');
  const other = done.id === handleCallback ? forgotten : handleCallback;
  const gone = await near.ended('cloud', other);
  assert.equal(gone.status, 'FAILED');
  assert.match(gone.error as string, /no longer knows the job/);
});
