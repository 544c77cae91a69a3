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

test('connections beyond the limit are refused, and there is room again when one leaves', async () => {
  const { port, face, socketPath } = await startKit({ limits: { connectionsMax: 2 } });
  const [one, two] = [await dial(port), await dial(port)];
  await until('both are there', () => face.connections() === 2);
  const third = await dial(port).catch(() => undefined);
  if (third) await until('the third is cut', third.closed);
  assert.equal(
    (await call(port, { path: '/health', socketPath })).status,
    200,
    'the owner gets in',
  );
  one.socket.destroy();
  await until('one has left', () => face.connections() === 1);
  assert.equal((await call(port, { path: '/health' })).status, 200);
  two.socket.destroy();
});
