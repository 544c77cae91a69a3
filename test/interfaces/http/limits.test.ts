// Limits for slow senders, idle connections and too many connections.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { until } from '../../helpers/until.ts';
import { call, startKit } from './kit.ts';

interface RawConnection {
  socket: Socket;
  text(): string;
  closed(): boolean;
}

function openConnection(port: number): Promise<RawConnection> {
  return new Promise((resolve, reject) => {
    let text = '';
    let closed = false;
    const socket = connect(port, '127.0.0.1');
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.on('close', () => (closed = true));
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      socket.on('error', () => {});
      resolve({ socket, text: () => text, closed: () => closed });
    });
  });
}

const post =
  'POST /api/echo HTTP/1.1\r\nhost: localhost\r\nx-api-key: key-run\r\n' +
  'content-type: application/json\r\ncontent-length: 20\r\n\r\n';

test('headers that arrive too late get 408 and the connection is closed', async () => {
  const { port } = await startKit({ limits: { headersTimeoutMs: 100, requestTimeoutMs: 60_000 } });
  const silent = await openConnection(port);
  const slow = await openConnection(port);
  slow.socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: ');
  await until('the slow connection is closed', slow.closed);
  assert.match(slow.text(), /^HTTP\/1\.1 408 [^]*not sent in time/);
  await until('the silent connection is closed', silent.closed);
  assert.equal((await call(port, { path: '/health' })).status, 200);
});

test('a body that arrives too late gets 408 and the connection is closed', async () => {
  const { port } = await startKit({ limits: { headersTimeoutMs: 80, requestTimeoutMs: 150 } });
  const slow = await openConnection(port);
  slow.socket.write(`${post}{"text":`);
  await until('the connection is closed', slow.closed);
  assert.match(slow.text(), /^HTTP\/1\.1 408 /);
});

test('an idle connection is closed, but not one that waits for a slow response', async () => {
  const { port, seen } = await startKit({ limits: { idleTimeoutMs: 100 } });
  const idle = await openConnection(port);
  idle.socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n');
  await until('the response arrives', () => idle.text().includes('"ok"'));
  const slow = call(port, { path: '/api/wait_thing', key: 'key-run', body: '{"name":"long"}' });
  await until('the call runs', () => seen.waiting.includes('long'));
  await until('the idle connection is closed', idle.closed);
  seen.release();
  assert.deepEqual((await slow).json, { name: 'long' });
});

test('over the limit an idle connection is closed; if none is idle, only /health responds', async () => {
  const { port, httpInterface, seen } = await startKit({ limits: { maxConnections: 2 } });
  const [one, two] = [await openConnection(port), await openConnection(port)];
  await until('both are connected', () => httpInterface.connections() === 2);
  assert.equal((await call(port, { path: '/health' })).status, 200);
  await until('the oldest idle connection is closed', one.closed);
  two.socket.destroy();
  const wait = (name: string) =>
    call(port, { path: '/api/wait_thing', key: 'key-run', body: JSON.stringify({ name }) });
  const busy = [wait('a'), wait('b')];
  await until('both calls run', () => seen.waiting.includes('a') && seen.waiting.includes('b'));
  assert.equal((await call(port, { path: '/health' })).status, 200);
  const rejected = await call(port, { path: '/api/echo', key: 'key-read', body: '{}' });
  assert.equal(rejected.status, 503);
  assert.equal((rejected.json as { data: { limit: string } }).data.limit, 'http.maxConnections');
  seen.release();
  for (const response of busy) assert.equal((await response).status, 200);
});

test('each key and each address has its own connection limit', async () => {
  const limits = { maxKeyConnections: 2, maxAddressConnections: 3 };
  const { port, seen } = await startKit({ limits });
  const wait = (name: string) =>
    call(port, { path: '/api/wait_thing', key: 'key-run', body: JSON.stringify({ name }) });
  const busy = [wait('a'), wait('b')];
  await until('both calls run', () => seen.waiting.includes('a') && seen.waiting.includes('b'));
  const third = await wait('c');
  assert.equal(third.status, 429);
  assert.equal((third.json as { data: { limit: string } }).data.limit, 'http.maxKeyConnections');
  assert.equal((await call(port, { path: '/api/echo', key: 'key-read', body: '{}' })).status, 200);
  const silent: RawConnection[] = [];
  for (let i = 0; i < 6; i++) silent.push(await openConnection(port));
  await until('the oldest silent connections are closed', () =>
    silent.slice(0, 3).every((s) => s.closed()),
  );
  assert.equal((await call(port, { path: '/api/echo', key: 'key-read', body: '{}' })).status, 200);
  seen.release();
  for (const response of busy) assert.equal((await response).status, 200);
  for (const { socket } of silent) socket.destroy();
});

test('bodies without a key are limited individually and in total', async () => {
  const limits = { maxAnonymousBodyBytes: 1000, maxAnonymousBytes: 1500, addressRate: 0 };
  const { port } = await startKit({ limits });
  const path = '/api/public_echo';
  const large = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(2000) }) });
  assert.equal(large.status, 413);
  const head = (length: number) =>
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  const slow = await openConnection(port);
  slow.socket.write(`${head(900)}{"text":"`);
  await until('the second request is rejected', async () => {
    const second = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(800) }) });
    return second.status === 429;
  });
  slow.socket.destroy();
  await until('requests are accepted again', async () => {
    const again = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(800) }) });
    return again.status === 200;
  });
});

test('a body over the memory limit of its key waits only for requests of the same key', async () => {
  const { port } = await startKit({ limits: { maxKeyBytes: 100 } });
  const slow = await openConnection(port);
  slow.socket.write(`${post.replace('20', '90')}{"text":"`);
  const text = 'y'.repeat(80);
  const body = JSON.stringify({ text });
  let isDone = false;
  const waits = call(port, { path: '/api/echo', key: 'key-run', body }).then((response) => {
    isDone = true;
    return response;
  });
  assert.deepEqual((await call(port, { path: '/api/echo', key: 'key-read', body })).json, { text });
  assert.equal(isDone, false);
  slow.socket.destroy();
  assert.deepEqual((await waits).json, { text });
});

test('the number of streams per key is limited', async () => {
  const { port } = await startKit({ limits: { maxKeyStreams: 1 } });
  const open = await openConnection(port);
  open.socket.write(
    'GET /api/count?to=1&forever=true&follow=true HTTP/1.1\r\nhost: localhost\r\nx-api-key: key-run\r\n\r\n',
  );
  await until('the stream is open', () => open.text().includes('text/event-stream'));
  const second = await call(port, {
    method: 'GET',
    path: '/api/count?to=1&forever=true&follow=true',
    key: 'key-run',
  });
  assert.equal(second.status, 429);
  open.socket.destroy();
});
