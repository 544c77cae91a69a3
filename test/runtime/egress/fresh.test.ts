// Requests that must not be sent twice: each uses a new connection and reports whether it was sent.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcp } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../../src/runtime/clock.ts';
import { createEgress } from '../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../src/runtime/log.ts';

test('a fresh request never shares a connection and reports whether it was sent', async (t) => {
  const egress = createEgress({ policy: { allow: [] }, clock: systemClock, log: silentLog });
  t.after(() => egress.close());
  let connections = 0;
  const server = createServer((_, response) => void response.end('ok'));
  server.on('connection', () => connections++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  for (let i = 0; i < 5; i++) {
    const options = { url, method: 'POST', body: 'x', trust: 'trusted', fresh: true } as const;
    assert.equal(await (await egress.request(options)).body.text(), 'ok');
  }
  assert.equal(connections, 5);

  let sent = 0;
  const onSent = () => (sent += 1);
  let posts = 0;
  const closing = createTcp((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      posts += 1;
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => closing.listen(0, '127.0.0.1', resolve));
  const { port } = closing.address() as AddressInfo;
  const post = () =>
    egress.request({
      url: `http://127.0.0.1:${port}/`,
      method: 'POST',
      body: 'x',
      trust: 'trusted',
      fresh: true,
      onSent,
    });
  await assert.rejects(post());
  assert.deepEqual([sent, posts], [1, 1], 'sent once, lost, not sent again');
  await new Promise((resolve) => closing.close(resolve));
  await assert.rejects(post());
  assert.deepEqual([sent, posts], [1, 1], 'nobody listened, so nothing was sent');
});
