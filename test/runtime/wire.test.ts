// Reading a body costs memory in proportion to its size, however the client splits it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { readBody } from '../../src/runtime/wire.ts';

const bytes = 60_000;
/** Kept as separate chunks, the body needs about 7 MB. */
const maxGrowthBytes = 2_000_000;

function usedBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test('a body that arrives byte by byte is not kept as one buffer per byte', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const requested = once(server, 'request') as Promise<[IncomingMessage]>;
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => client.destroy());
  client.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
  const [request] = await requested;
  const before = usedBytes();
  const body = readBody(request, { maxBytes: 2 * bytes });
  let arrived = 0;
  const complete = new Promise<void>((resolve) => {
    request.on('data', (chunk: Buffer) => {
      arrived += chunk.length;
      if (arrived === bytes) resolve();
    });
  });
  client.write('1\r\nx\r\n'.repeat(bytes));
  await complete;
  const growth = usedBytes() - before;
  assert.ok(growth <= maxGrowthBytes, `${growth} bytes`);
  client.write('2\r\nyz\r\n0\r\n\r\n');
  assert.equal((await body).toString(), `${'x'.repeat(bytes)}yz`);
});
