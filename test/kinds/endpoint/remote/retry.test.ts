// Retrying a job that failed on a remote: the remote reruns it under its own id, exactly once, even if responses are
// lost.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { kill, serve } from '../../../helpers/endpoint-process.ts';
import { freePort } from '../../../helpers/port.ts';
import { handlerFile, startEndpoints, type EndpointServer } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { answer, countThere, fake, isRun, proxy } from '../../../helpers/remote.ts';
import { until } from '../../../helpers/until.ts';

process.env.TEST_RETRY_KEY = 'some-key';
const isRetry = ({ method, url }: { method?: string; url?: string }): boolean =>
  method === 'POST' && url!.includes('/retry/');

test('another Errand reruns the job under the same id, even if responses are lost', async (t) => {
  const far = await startThere(t);
  const near = await startEndpoints(t);
  let deaf = 1;
  let asked = 0;
  const line = await proxy(t, far.url, (incoming) => {
    if (!isRetry(incoming)) return false;
    asked += 1;
    return deaf-- > 0;
  });
  const remote = { baseUrl: line.url, endpointId: 'there', keyEnv: 'TEST_FAR_KEY' };
  await near.save('here', { remote: { ...remote, timeoutMs: 1000 } });
  const { id } = await near.ended('here', await near.run('here', { do: 'throw' }));
  for (const retries of [1, 2]) {
    await near.call('POST', `/v2/here/retry/${id as string}`, '');
    const again = await near.ended('here', id as string);
    assert.deepEqual([again.status, again.retries], ['FAILED', retries]);
    assert.deepEqual(await theirs(far), [{ status: 'FAILED', retries }]);
  }
  assert.equal(asked, 2, 'each was sent once: after a lost response the remote was only queried');

  // A duplicate of the same call with the same key changes nothing.
  const there = (await requests(far))[0]!.id as string;
  const key = { 'idempotency-key': 'twice' };
  const twice = await Promise.all(
    [1, 2].map(() => far.call('POST', `/v2/there/retry/${there}`, '', key)),
  );
  assert.deepEqual(
    twice.map(({ status }) => status),
    [200, 200],
  );
  await until('it is over there', async () => (await theirs(far))[0]!.status === 'FAILED');
  const late = await far.call('POST', `/v2/there/retry/${there}`, '', key);
  assert.deepEqual([late.status, late.body.status], [200, 'FAILED']);
  assert.deepEqual(await theirs(far), [{ status: 'FAILED', retries: 3 }]);
});

test(
  'after kill -9 during a retry, the next server queries the remote before it sends',
  { timeout: 120_000 },
  async (t) => {
    const far = await startThere(t);
    let deaf = true;
    let asked = 0;
    const line = await proxy(t, far.url, (incoming) => {
      if (!isRetry(incoming)) return false;
      asked += 1;
      return deaf;
    });
    const home = join(tempFolder(t), 'home');
    const port = await freePort();
    const first = await serve(t, home, port);
    const remote = { baseUrl: line.url, endpointId: 'there', keyEnv: 'TEST_FAR_KEY' };
    await first.save('here', { remote });
    const { id } = await first.ended('here', await first.run('here', { do: 'throw' }));
    await first.call('POST', `/v2/here/retry/${id as string}`, '');
    await until('it ran there again', async () => (await theirs(far))[0]!.retries === 1);
    kill(first.pid);
    deaf = false;
    const second = await serve(t, home, port);
    const job = await second.ended('here', id as string);
    assert.deepEqual([job.status, job.retries], ['FAILED', 1]);
    await until('it is over there', async () => (await theirs(far))[0]!.status === 'FAILED');
    assert.deepEqual(await theirs(far), [{ status: 'FAILED', retries: 1 }]);
    assert.equal(asked, 1);
    kill(second.pid);
  },
);

test('without key support, a lost retry is detected by the job status or reported as unknown', async (t) => {
  const near = await startEndpoints(t);
  const calls: string[] = [];
  const failed = { status: 'FAILED', error: 'no', executionTime: 7, delayTime: 3, workerId: 'w' };
  let job: Record<string, unknown> = failed;
  let taken: Record<string, unknown> | undefined;
  let verdict: 'lost' | 400 = 'lost';
  const cloud = await fake(t, (incoming, response) => {
    const [, , route] = incoming.url!.split(/[/?]/);
    if (incoming.method === 'POST') calls.push(route!);
    if (route === 'requests') return answer(response, 200, { requests: [] });
    if (route === 'stream') return answer(response, 200, { status: job.status, stream: [] });
    if (isRun(incoming)) return answer(response, 200, { id: 'r1', status: 'IN_QUEUE' });
    if (route === 'status') return answer(response, 200, { id: 'r1', ...job });
    if (taken) job = taken;
    if (verdict === 'lost') return void incoming.socket.destroy();
    return answer(response, verdict, { error: 'cannot be retried' });
  });
  await near.save('cloud', { remote: { ...cloud, keyEnv: 'TEST_RETRY_KEY' } });
  const id = await near.run('cloud', { n: 1 });
  const again = async () => {
    calls.length = 0;
    await near.call('POST', `/v2/cloud/retry/${id}`, '');
    return near.ended('cloud', id);
  };
  assert.equal((await near.ended('cloud', id)).error, 'no');

  taken = { ...failed, error: 'no again', executionTime: 9 };
  assert.equal((await again()).error, 'no again', 'its new end proves that it ran');
  assert.deepEqual(calls, ['retry']);

  taken = undefined;
  assert.match(
    (await again()).error as string,
    /no response came/,
    'unchanged, so the outcome is unknown',
  );
  assert.deepEqual(calls, ['retry'], 'it is not sent twice automatically');

  // The previous attempt ended without a report from the remote, so a new job runs now.
  assert.equal((await again()).error, 'no again');
  assert.deepEqual(calls, ['run']);

  // The rejection follows a retry that was accepted, so nothing else runs.
  verdict = 400;
  taken = { status: 'COMPLETED', output: 'good' };
  assert.equal((await again()).output, 'good');
  assert.deepEqual(calls, ['retry']);
});

test('a remote without retry support, or without the job, gets a new job', async (t) => {
  const near = await startEndpoints(t);
  const calls: string[] = [];
  const cloud = await fake(t, (incoming, response) => {
    const [, , route, id] = incoming.url!.split(/[/?]/);
    if (incoming.method === 'POST') calls.push(route!);
    if (route === 'retry') return answer(response, 404, { error: 'job not found' });
    if (isRun(incoming))
      return answer(response, 200, { id: `r${calls.length}`, status: 'IN_QUEUE' });
    if (route === 'stream') return answer(response, 200, { status: 'FAILED', stream: [] });
    if (calls.includes('retry') && id === 'r1') return answer(response, 404, { error: 'gone' });
    return answer(response, 200, { id, status: 'FAILED', error: `of ${id}` });
  });
  await near.save('cloud', { remote: { ...cloud, keyEnv: 'TEST_RETRY_KEY' } });
  const id = await near.run('cloud', {});
  assert.equal((await near.ended('cloud', id)).error, 'of r1');
  await near.call('POST', `/v2/cloud/retry/${id}`, '');
  assert.equal((await near.ended('cloud', id)).error, 'of r3');
  assert.deepEqual(calls, ['run', 'retry', 'run']);
});

async function startThere(t: TestContext): Promise<EndpointServer> {
  const far = await startEndpoints(t);
  process.env.TEST_FAR_KEY = far.key;
  await far.save('there', { recipe: { module: handlerFile }, maxWorkers: 1 });
  return far;
}

async function requests(far: EndpointServer): Promise<Record<string, unknown>[]> {
  assert.equal(await countThere(far), 1, 'there is one job there');
  return (await far.call('GET', '/v2/there/requests')).body.requests as Record<string, unknown>[];
}

async function theirs(far: EndpointServer) {
  return (await requests(far)).map(({ status, retries }) => ({ status, retries }));
}
