// How long and how often somebody may keep a listener busy: slow senders, idle connections, too many of them.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { until } from '../helpers/until.ts';
import { call, startKit } from './http-kit.ts';

interface Line {
  socket: Socket;
  text(): string;
  closed(): boolean;
}

function dial(port: number): Promise<Line> {
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

test('headers that do not come in time are answered 408 and the connection ends', async () => {
  const { port } = await startKit({ limits: { headersTimeoutMs: 100, requestTimeoutMs: 60_000 } });
  const silent = await dial(port);
  const slow = await dial(port);
  slow.socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: ');
  await until('the slow one is cut', slow.closed);
  assert.match(slow.text(), /^HTTP\/1\.1 408 [^]*not sent in time/);
  await until('the silent one is cut', silent.closed);
  assert.equal((await call(port, { path: '/health' })).status, 200);
});

test('a body that does not come in time is answered 408 and the connection ends', async () => {
  const { port } = await startKit({ limits: { headersTimeoutMs: 80, requestTimeoutMs: 150 } });
  const slow = await dial(port);
  slow.socket.write(`${post}{"text":`);
  await until('it is cut', slow.closed);
  assert.match(slow.text(), /^HTTP\/1\.1 408 /);
});

test('an idle connection is closed, one with a long answer under way is not', async () => {
  const { port, seen } = await startKit({ limits: { idleTimeoutMs: 100 } });
  const idle = await dial(port);
  idle.socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n');
  await until('it is answered', () => idle.text().includes('"ok"'));
  const slow = call(port, { path: '/api/wait_thing', key: 'key-run', body: '{"name":"long"}' });
  await until('the call runs', () => seen.waiting.includes('long'));
  await until('the idle one is closed', idle.closed);
  seen.release();
  assert.deepEqual((await slow).json, { name: 'long' });
});

test('beyond the limit an idle connection makes room; with none idle only /health is answered', async () => {
  const { port, face, seen } = await startKit({ limits: { connectionsMax: 2 } });
  const [one, two] = [await dial(port), await dial(port)];
  await until('both are there', () => face.connections() === 2);
  assert.equal((await call(port, { path: '/health' })).status, 200);
  await until('the oldest idle one made room', one.closed);
  two.socket.destroy();
  const wait = (name: string) =>
    call(port, { path: '/api/wait_thing', key: 'key-run', body: JSON.stringify({ name }) });
  const busy = [wait('a'), wait('b')];
  await until('both calls run', () => seen.waiting.includes('a') && seen.waiting.includes('b'));
  assert.equal((await call(port, { path: '/health' })).status, 200);
  const refused = await call(port, { path: '/api/echo', key: 'key-read', body: '{}' });
  assert.equal(refused.status, 503);
  assert.equal((refused.json as { data: { limit: string } }).data.limit, 'http.connectionsMax');
  seen.release();
  for (const answer of busy) assert.equal((await answer).status, 200);
});

test('one key and one address have a limit of connections of their own', async () => {
  const limits = { keyConnectionsMax: 2, addressConnectionsMax: 3 };
  const { port, seen } = await startKit({ limits });
  const wait = (name: string) =>
    call(port, { path: '/api/wait_thing', key: 'key-run', body: JSON.stringify({ name }) });
  const busy = [wait('a'), wait('b')];
  await until('both calls run', () => seen.waiting.includes('a') && seen.waiting.includes('b'));
  const third = await wait('c');
  assert.equal(third.status, 429);
  assert.equal((third.json as { data: { limit: string } }).data.limit, 'http.keyConnectionsMax');
  assert.equal((await call(port, { path: '/api/echo', key: 'key-read', body: '{}' })).status, 200);
  const silent: Line[] = [];
  for (let i = 0; i < 6; i++) silent.push(await dial(port));
  await until('the oldest silent ones were closed', () =>
    silent.slice(0, 3).every((s) => s.closed()),
  );
  assert.equal((await call(port, { path: '/api/echo', key: 'key-read', body: '{}' })).status, 200);
  seen.release();
  for (const answer of busy) assert.equal((await answer).status, 200);
  for (const { socket } of silent) socket.destroy();
});

test('without a key a body is small, and all of them together are bounded', async () => {
  const limits = { anonymousBodyBytesMax: 1000, anonymousBytesMax: 1500, addressRate: 0 };
  const { port } = await startKit({ limits });
  const path = '/api/public_echo';
  const large = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(2000) }) });
  assert.equal(large.status, 413);
  const head = (length: number) =>
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  const slow = await dial(port);
  slow.socket.write(`${head(900)}{"text":"`);
  await until('the second is refused', async () => {
    const second = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(800) }) });
    return second.status === 429;
  });
  slow.socket.destroy();
  await until('there is room again', async () => {
    const again = await call(port, { path, body: JSON.stringify({ text: 'x'.repeat(800) }) });
    return again.status === 200;
  });
});

test('bodies of one key beyond its memory wait for its own and nobody else', async () => {
  const { port } = await startKit({ limits: { keyBytesMax: 100 } });
  const slow = await dial(port);
  slow.socket.write(`${post.replace('20', '90')}{"text":"`);
  const text = 'y'.repeat(80);
  const body = JSON.stringify({ text });
  let isAnswered = false;
  const waits = call(port, { path: '/api/echo', key: 'key-run', body }).then((answer) => {
    isAnswered = true;
    return answer;
  });
  assert.deepEqual((await call(port, { path: '/api/echo', key: 'key-read', body })).json, { text });
  assert.equal(isAnswered, false);
  slow.socket.destroy();
  assert.deepEqual((await waits).json, { text });
});

test('streams of one key have a limit', async () => {
  const { port } = await startKit({ limits: { keyStreamsMax: 1 } });
  const open = await dial(port);
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
