// The send-only WebSocket never buffers more than one client frame, regardless of what the client sends.
import assert from 'node:assert/strict';
import { on, once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { sendMessages } from '../../../src/interfaces/http/websocket.ts';
import { until } from '../../helpers/until.ts';

async function open(t: TestContext): Promise<{ client: Socket; served: Socket }> {
  const leaving = new AbortController();
  const server = createServer();
  const upgraded = once(server, 'upgrade');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  client.on('error', () => {});
  t.after(() => {
    leaving.abort();
    client.destroy();
    server.close();
  });
  client.write(
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );
  const [request, served] = (await upgraded) as Parameters<typeof sendMessages>;
  served.on('error', () => {});
  sendMessages(request, served, silence(leaving.signal), { signal: leaving.signal }).catch(
    () => {},
  );
  await once(client, 'data');
  return { client, served: served as Socket };
}

/** A stream without items. */
async function* silence(signal: AbortSignal): AsyncGenerator<unknown> {
  yield* on(signal, 'abort', { signal });
}

/** A masked frame, as clients send them; the mask is zero. */
function clientFrame(opcode: number, bytes: number): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | 126;
  head.writeUInt16BE(bytes, 2);
  return Buffer.concat([head, Buffer.alloc(bytes, 97)]);
}

test('an oversized frame closes the connection, even if more data follows', async (t) => {
  const { client, served } = await open(t);
  const received = once(client, 'data') as Promise<[Buffer]>;
  const closed = once(served, 'close');
  const flood = () => {
    while (!client.destroyed && client.write(Buffer.alloc(65_536))) continue;
  };
  client.on('drain', flood);
  client.write(clientFrame(2, 60_000));
  flood();
  const [close] = await received;
  assert.equal(close.readUInt16BE(2), 1009);
  await closed;
  assert.ok(served.bytesRead < 8_000_000, `${served.bytesRead} bytes were read`);
});

test('pongs that the client does not read are not buffered', async (t) => {
  const { client, served } = await open(t);
  client.pause();
  const pings = Buffer.concat(Array.from({ length: 100 }, () => clientFrame(9, 4000)));
  const rounds = 100;
  for (let i = 0; i < rounds; i++) if (!client.write(pings)) await once(client, 'drain');
  await until('all pings were read', () => served.bytesRead >= rounds * pings.length);
  assert.ok(served.writableLength < 1_000_000, `${served.writableLength} bytes wait`);
});
