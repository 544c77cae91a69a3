// Two Errand servers: one is the remote of the other, with a proxy between them that drops, delays and duplicates
// requests.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Jobs } from '../../../../src/jobs/jobs.ts';
import { Endpoints } from '../../../../src/kinds/endpoint/endpoints.ts';
import { endpointMigrations } from '../../../../src/kinds/endpoint/migrations.ts';
import { RemoteClient } from '../../../../src/kinds/endpoint/remote/client.ts';
import { RemoteDriver } from '../../../../src/kinds/endpoint/remote/driver.ts';
import { RemoteStore } from '../../../../src/kinds/endpoint/store/remote-jobs.ts';
import { Results } from '../../../../src/kinds/endpoint/jobs/results.ts';
import { EndpointStore } from '../../../../src/kinds/endpoint/store/endpoints.ts';
import { Streams } from '../../../../src/kinds/endpoint/store/streams.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { createEgress } from '../../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../../src/runtime/log.ts';
import { freePort } from '../../../helpers/port.ts';
import { handlerFile, startEndpoints, type EndpointServer } from '../../../helpers/endpoint.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { toyKind } from '../../../helpers/jobs.ts';
import { listen } from '../../../helpers/listener.ts';
import { stores } from '../../../helpers/stores.ts';
import { until } from '../../../helpers/until.ts';

test('jobs run on a remote exactly once over an unreliable connection', async (t) => {
  const far = await startEndpoints(t);
  await far.save('there', { recipe: { module: handlerFile }, maxWorkers: 1, concurrency: 8 });
  const proxy = await faultyProxy(t, far.url);
  process.env.TEST_REMOTE_KEY = far.key;
  const near = await startEndpoints(t);
  const remote = { baseUrl: `${proxy.url}/v2`, endpointId: 'there', keyEnv: 'TEST_REMOTE_KEY' };
  await near.save('here', { remote: { ...remote, callbackUrl: near.url } });

  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => near.run('here', { n })));
  const ended = await Promise.all(ids.map((id) => near.ended('here', id)));
  for (const [n, job] of ended.entries()) {
    assert.equal(job.status, 'COMPLETED', JSON.stringify(job));
    assert.deepEqual(job.output, { n });
  }
  const { body } = await far.call('GET', '/v2/there/requests?limit=200');
  assert.equal((body.requests as unknown[]).length, 20, 'no submission was duplicated');
  assert.ok(proxy.dropped() > 5, 'the connection was unreliable');

  const streamed = await near.run('here', { do: 'stream', count: 20, ms: 5 });
  await near.ended('here', streamed);
  const chunks = await near.call('GET', `/v2/here/stream/${streamed}`);
  assert.deepEqual(
    (chunks.body.stream as { output: { index: number } }[]).map(({ output }) => output.index),
    Array.from({ length: 20 }, (_, i) => i),
  );

  const failed = await near.ended('here', await near.run('here', { do: 'error' }));
  assert.equal(failed.status, 'FAILED');
  assert.equal(failed.error, 'refused');

  const long = await near.run('here', { do: 'wait', ms: 120_000 });
  await until('it runs there', async () => {
    const job = await near.call('GET', `/api/jobs/${long}`);
    return job.body.stage === 'remoteRunning';
  });
  assert.equal((await near.call('POST', `/v2/here/cancel/${long}`, '')).body.status, 'CANCELLED');
  const isIdle = async () => {
    const health = await far.call('GET', '/v2/there/health');
    return (health.body.jobs as Record<string, number>).inProgress === 0;
  };
  await until('it is cancelled there', isIdle);

  const last = await near.run('here', { do: 'wait', ms: 120_000 });
  await until('it runs there', async () => !(await isIdle()));
  await near.call('DELETE', '/api/endpoints/here');
  assert.equal((await near.call('GET', `/api/jobs/${last}`)).body.status, 'cancelled');
  await until('a deleted endpoint leaves nothing running there', isIdle);
});

test('a job that ended here before the remote was notified is cancelled there', async (t) => {
  const far = await startEndpoints(t);
  await far.save('there', { recipe: { module: handlerFile }, maxWorkers: 1, concurrency: 8 });
  const { jobs, driver } = await startDriver(t, far);
  const submission = { kind: 'endpoint', queue: 'here', owner: 'me' };
  const { job } = await jobs.submit({
    ...submission,
    input: { input: { do: 'wait', ms: 120_000 } },
  });
  const running = await until('it runs there', async () => {
    const present = await jobs.get(job.id);
    return present.stage === 'remoteRunning' ? present : undefined;
  });
  // As if the server was killed between the end of the job and storing the pending cancel.
  await jobs.finish({ jobId: job.id, attemptId: running.attemptId }, { type: 'cancelled' });
  await until('it is cancelled there', async () => {
    const { body } = await far.call('GET', '/v2/there/requests');
    return (body.requests as { status: string }[])[0]!.status === 'CANCELLED';
  });
  await until('nothing is left to do', async () => !(await driver.busy()));
});

test('a job that waits on its remote is IN_QUEUE in the RunPod API', async (t) => {
  const near = await startEndpoints(t);
  let word = 'IN_QUEUE';
  const baseUrl = await listen(t, (_incoming, response) => {
    response.end(JSON.stringify({ id: 'there-1', status: word, stream: [], output: 1 }));
  });
  process.env.TEST_QUEUE_KEY = 'some-key';
  await near.save('far', { remote: { baseUrl, endpointId: 'x', keyEnv: 'TEST_QUEUE_KEY' } });
  const id = await near.run('far', {});
  const words = async () => {
    const { body: job } = await near.call('GET', `/api/jobs/${id}`);
    const { body } = await near.call('GET', `/v2/far/status/${id}`);
    const { body: health } = await near.call('GET', '/v2/far/health');
    const { inQueue, inProgress } = health.jobs as Record<string, number>;
    return [job.status, job.stage, body.status, inQueue, inProgress];
  };
  const becomes = (stage: string) =>
    until(stage, async () => {
      const seen = await words();
      return seen[1] === stage ? seen : undefined;
    });
  assert.deepEqual(await becomes('remoteQueue'), ['running', 'remoteQueue', 'IN_QUEUE', 1, 0]);
  const { body } = await near.call('GET', `/v2/far/stream/${id}?wait=1000`);
  assert.equal(body.status, 'IN_QUEUE');
  const { body: job } = await near.call('GET', `/api/jobs/${id}`);
  assert.equal(job.diagnosis, `The job waits in the queue of ${baseUrl}.`);
  word = 'IN_PROGRESS';
  // The stage may change between these requests.
  await becomes('remoteRunning');
  assert.deepEqual(await words(), ['running', 'remoteRunning', 'IN_PROGRESS', 0, 1]);
  word = 'COMPLETED';
  assert.equal((await near.ended('far', id)).status, 'COMPLETED');
});

test('jobs stay on their remote when the endpoint changes to another remote', async (t) => {
  const near = await startEndpoints(t);
  const [first, second] = [await pretender(t), await pretender(t)];
  process.env.TEST_MOVE_KEY = 'some-key';
  const remote = { endpointId: 'x', keyEnv: 'TEST_MOVE_KEY' };
  await near.save('moving', { remote: { ...remote, baseUrl: first.url } });
  const ids = await Promise.all([1, 2, 3].map((n) => near.run('moving', { n })));
  const isThere = async (id: string) =>
    (await near.call('GET', `/api/jobs/${id}`)).body.stage === 'remoteQueue';
  for (const id of ids) await until('it is there', () => isThere(id));

  await near.save('moving', { remote: { ...remote, baseUrl: second.url } });
  const { body } = await near.call('GET', `/api/jobs/${ids[0]!}`);
  assert.equal(body.diagnosis, `The job waits in the queue of ${first.url}.`);
  const next = await near.run('moving', { n: 4 });
  await until('a new one goes to the new place', () => isThere(next));
  await near.call('POST', `/v2/moving/cancel/${ids[0]!}`, '');
  await until('a cancel goes where the job is', () => first.stopped() === 1);

  await near.save('moving', { remote: null, maxWorkers: 0 });
  first.word = 'COMPLETED';
  for (const id of ids.slice(1)) {
    const ended = await near.ended('moving', id);
    assert.deepEqual([ended.status, ended.output], ['COMPLETED', first.url]);
  }
  // Remaining jobs are cancelled there, although only their rows name the remote.
  await near.call('DELETE', '/api/endpoints/moving');
  await until('it is stopped there', () => second.stopped() === 1);
});

/** A remote that reports a configurable status for every job. */
async function pretender(t: TestContext) {
  let stopped = 0;
  const self = { url: '', word: 'IN_QUEUE', stopped: () => stopped };
  self.url = await listen(t, ({ url }, response) => {
    if (url!.includes('/cancel/')) stopped += 1;
    const id = url!.split('/').at(-1) === 'run' ? randomUUID() : url!.split('/').at(-1);
    response.end(JSON.stringify({ id, status: self.word, stream: [], output: self.url }));
  });
  return self;
}

test('an unknown status does not end the job', async (t) => {
  const near = await startEndpoints(t);
  let asked = 0;
  const baseUrl = await listen(t, (incoming, response) => {
    const isStatus = incoming.url!.includes('/status/');
    if (isStatus) asked += 1;
    const status = incoming.method === 'POST' ? 'IN_QUEUE' : asked < 3 ? 'RUNNING' : 'FAILED';
    const error = status === 'FAILED' ? { error: 'executionTimeout exceeded' } : {};
    response.end(JSON.stringify({ id: 'there-1', status, stream: [], ...error }));
  });
  process.env.TEST_WORD_KEY = 'some-key';
  await near.save('odd', { remote: { baseUrl, endpointId: 'x', keyEnv: 'TEST_WORD_KEY' } });
  const ended = await near.ended('odd', await near.run('odd', {}));
  assert.deepEqual([ended.status, ended.error], ['FAILED', 'executionTimeout exceeded']);
  const { body } = await near.call('GET', `/api/jobs/${ended.id as string}`);
  assert.equal(body.status, 'timed_out', 'an execution timeout is reported as for every kind');
});

test('jobs report that their remote is unreachable', async (t) => {
  const near = await startEndpoints(t);
  process.env.TEST_AWAY_KEY = 'some-key';
  const remote = { endpointId: 'x', keyEnv: 'TEST_AWAY_KEY' };
  const port = await freePort();
  await near.save('away', { remote: { ...remote, baseUrl: `http://127.0.0.1:${port}/v2` } });
  const id = await near.run('away', {});
  const view = await until('it says why', async () => {
    const { body } = await near.call('GET', `/api/jobs/${id}`);
    return body.diagnosis === undefined || body.status === 'queued' ? undefined : body;
  });
  assert.match(view.diagnosis as string, /ECONNREFUSED.*retried/);
  const { body } = await near.call('GET', '/api/endpoints/away');
  assert.match(body.trouble as string, /ECONNREFUSED/);
});

/** The remote driver alone: nothing else ends its jobs or reports their ends. */
async function startDriver(t: TestContext, far: EndpointServer) {
  const store = await stores[0]!.open(t, endpointMigrations);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind({ ...toyKind, name: 'endpoint' });
  const endpoints = new Endpoints(new EndpointStore(store), systemClock);
  const remote = { baseUrl: `${far.url}/v2`, endpointId: 'there', keyEnv: 'K' };
  await endpoints.save({ id: 'here', fields: { remote }, owner: 'me', source: 'api', merge: true });
  const parts = { clock: systemClock, log: silentLog };
  const egress = createEgress({ policy: { allow: [] }, ...parts });
  t.after(() => egress.close());
  const driver = new RemoteDriver({
    ...parts,
    jobs,
    endpoints,
    store: new RemoteStore(store),
    client: new RemoteClient(egress, () => far.key),
    results: new Results(tempFolder(t)),
    streams: new Streams(store, jobs),
    node: 'here',
    sign: () => 'signed',
  });
  await driver.start();
  t.after(() => driver.stop());
  return { jobs, driver };
}

test('a remote without a key, and one that responds with Retry-After', async (t) => {
  const near = await startEndpoints(t);
  let asked = 0;
  const busy = createServer((incoming, response) => {
    if (incoming.method === 'POST') asked += 1;
    response.writeHead(asked === 1 ? 429 : 400, { 'retry-after': '1' });
    response.end('{"error":"not today"}');
  });
  await new Promise<void>((resolve) => busy.listen(0, '127.0.0.1', resolve));
  t.after(() => busy.close());
  const baseUrl = `http://127.0.0.1:${(busy.address() as AddressInfo).port}/v2`;
  await near.save('busy', { remote: { baseUrl, endpointId: 'x', keyEnv: 'TEST_NO_SUCH_KEY' } });
  const id = await near.run('busy', {});
  const { body } = await near.call('GET', `/api/jobs/${id}`);
  assert.match(body.diagnosis as string, /TEST_NO_SUCH_KEY/);
  process.env.TEST_LATER_KEY = 'some-key';
  await near.save('busy', { remote: { baseUrl, endpointId: 'x', keyEnv: 'TEST_LATER_KEY' } });
  const started = Date.now();
  const ended = await near.ended('busy', id);
  assert.equal(ended.status, 'FAILED');
  assert.match(ended.error as string, /not today/);
  assert.ok(Date.now() - started >= 900, 'Retry-After is obeyed');
});

/**
 * Drops every fifth response after the work was done and every seventh request before it, and duplicates every
 * fourth.
 */
async function faultyProxy(t: TestContext, to: string) {
  let count = 0;
  let dropped = 0;
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      count += 1;
      const turn = count;
      const lose = () => {
        dropped += 1;
        outgoing.destroy();
      };
      if (turn % 7 === 0) return lose();
      const send = (answer: (status: number, headers: object, body: Buffer) => void) => {
        const call = request(
          `${to}${incoming.url}`,
          { method: incoming.method!, headers: incoming.headers },
          (response) => {
            const parts: Buffer[] = [];
            response.on('data', (part: Buffer) => parts.push(part));
            response.on('end', () =>
              answer(response.statusCode!, response.headers, Buffer.concat(parts)),
            );
          },
        );
        call.on('error', lose);
        call.end(Buffer.concat(chunks));
      };
      if (turn % 4 === 0) send(() => {});
      send((status, headers, body) => {
        if (turn % 5 === 0) return lose();
        setTimeout(() => outgoing.writeHead(status, { ...headers }).end(body), (turn % 3) * 20);
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, dropped: () => dropped };
}
