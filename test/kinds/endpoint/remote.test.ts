// Two Errands: one is the remote of the other, with a proxy between them that drops, delays and doubles requests.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { until } from '../../helpers/until.ts';

test('jobs for a remote run there exactly once, whatever the line between them does', async (t) => {
  const far = await startEndpoints(t);
  await far.save('there', { recipe: { module: handlerFile }, workersMax: 1, concurrency: 8 });
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
  assert.equal((body.requests as unknown[]).length, 20, 'no submit was doubled');
  assert.ok(proxy.dropped() > 5, 'the line was really bad');

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
  await until('it is cancelled there too', async () => {
    const health = await far.call('GET', '/v2/there/health');
    return (health.body.jobs as Record<string, number>).inProgress === 0;
  });
});

test('a remote without its key, and one that says later', async (t) => {
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

/** Every fifth answer is lost after the work was done, every seventh request before; every fourth is sent twice. */
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
