// Attacks on the memory and the connections of a real server. docs/http.md lists the figures, which
// `node --test test/e2e/http-attacks.test.ts` prints.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { httpSettings } from '../../src/config.ts';
import { startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const mebi = 1024 * 1024;
const maxRss = 300 * mebi;
const maxDelayMs = 1000;
/** Memory is read from /proc. */
const linuxOnly = { skip: process.platform !== 'linux' };

test(
  '400 connections that each send 10 MiB without a key stay within 300 MB',
  linuxOnly,
  async (t) => {
    const server = await startServer(t);
    const before = rssOf(server);
    const piece = Buffer.alloc(64 * 1024, 0x20);
    const chunk = Buffer.concat([
      Buffer.from(`${piece.length.toString(16)}\r\n`),
      piece,
      Buffer.from('\r\n'),
    ]);
    let peak = 0;
    const watch = setInterval(() => (peak = Math.max(peak, rssOf(server))), 20);
    const senders = Array.from({ length: 400 }, (_, i) => {
      const isChunked = i % 2 === 1;
      const framing = isChunked ? 'transfer-encoding: chunked' : `content-length: ${10 * mebi}`;
      return flood(
        server,
        `${head('POST', '/api/wait')}${framing}\r\n\r\n`,
        isChunked ? chunk : piece,
      );
    });
    const health = await timed(() => server.api('GET', '/health'));
    const call = await timed(() => server.api('GET', '/api/jobs'));
    await Promise.all(senders);
    clearInterval(watch);
    report(t, 'RSS before, at the peak and afterwards', [before, peak, rssOf(server)], mebi, 'MiB');
    report(t, '/health and a call with a key meanwhile', [health.ms, call.ms], 1, 'ms');
    assert.ok(peak <= maxRss, `${peak / mebi} MiB`);
    assert.ok(rssOf(server) <= maxRss);
    assert.deepEqual([health.status, call.status], [200, 200]);
    assert.ok(call.ms <= maxDelayMs, `${call.ms} ms`);
  },
);

const deepOnly = {
  skip: linuxOnly.skip || (process.env.ERRAND_TEST_DEEP !== '1' && 'a part of test:deep'),
};

// test/runtime/wire.test.ts checks the mechanism in every run.
test('bodies without a key that arrive byte by byte stay within 300 MB', deepOnly, async (t) => {
  const server = await startServer(t);
  const before = rssOf(server);
  const body = '1\r\n \r\n'.repeat(60_000);
  const text = `${head('POST', '/api/wait')}transfer-encoding: chunked\r\n\r\n${body}0\r\n\r\n`;
  let peak = 0;
  const watch = setInterval(() => (peak = Math.max(peak, rssOf(server))), 20);
  // Further calls are rejected immediately, and their bodies are discarded.
  const { maxAddressCalls } = httpSettings.parse({});
  const senders = Array.from({ length: maxAddressCalls }, async () => {
    const socket = await held(server, text);
    const answered = new Promise<void>((resolve) => {
      socket.once('data', () => resolve());
      socket.once('close', () => resolve());
    });
    await answered;
    socket.destroy();
  });
  await Promise.all(senders);
  clearInterval(watch);
  report(t, 'RSS before and at the peak', [before, peak], mebi, 'MiB');
  assert.ok(peak <= maxRss, `${peak / mebi} MiB`);
});

test('one key with 2,000 connections does not delay another key', async (t) => {
  const server = await startServer(t);
  const made = await server.api('POST', '/api/keys', { name: 'greedy', scopes: ['read', 'run'] });
  const greedy = made.json<{ key: string }>().key;
  assert.ok(greedy, made.text);
  const job = await server.api('POST', '/api/commands', { command: 'sleep 60' });
  const { id } = job.json<{ id: string }>();
  const body = JSON.stringify({ ids: [id], timeoutMs: 50_000 });
  const wait =
    `${head('POST', '/api/wait', greedy)}content-type: application/json\r\n` +
    `content-length: ${body.length}\r\n\r\n${body}`;
  const sockets: Socket[] = [];
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  const delays: number[] = [];
  const healths: number[] = [];
  for (let i = 0; i < 2000; i++) {
    sockets.push(await held(server, wait));
    if (i % 50 !== 0) continue;
    const call = await timed(() => server.api('GET', '/api/jobs'));
    const health = await timed(() => server.api('GET', '/health'));
    assert.deepEqual([call.status, health.status], [200, 200]);
    delays.push(call.ms);
    healths.push(health.ms);
  }
  report(t, 'longest call of another key, longest /health', [max(delays), max(healths)], 1, 'ms');
  assert.ok(max(delays) <= maxDelayMs, `${max(delays)} ms`);
  assert.ok(max(healths) <= maxDelayMs, `${max(healths)} ms`);
  await until('the key has at most its share of connections', async () => {
    const open = sockets.filter((socket) => !socket.destroyed).length;
    return open <= httpSettings.parse({}).maxKeyConnections;
  });
});

test('2,000 silent connections do not block other clients', async (t) => {
  const server = await startServer(t);
  const sockets: Socket[] = [];
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  for (let i = 0; i < 2000; i++) sockets.push(await held(server, ''));
  const call = await timed(() => server.api('GET', '/api/jobs'));
  const health = await timed(() => server.api('GET', '/health'));
  report(t, 'a call with a key, /health', [call.ms, health.ms], 1, 'ms');
  assert.deepEqual([call.status, health.status], [200, 200]);
  assert.ok(call.ms <= maxDelayMs && health.ms <= maxDelayMs);
});

const head = (method: string, path: string, key?: string): string =>
  `${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${key ? `x-api-key: ${key}\r\n` : ''}`;

function held(server: TestServer, text: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.resume();
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject).on('error', () => {});
      socket.write(text);
      resolve(socket);
    });
  });
}

/** Sends chunks until 10 MiB are sent or the server closes the connection. */
async function flood(server: TestServer, start: string, piece: Buffer): Promise<void> {
  const socket = await held(server, start);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  for (let sent = 0; sent < 10 * mebi && socket.writable; sent += piece.length)
    if (!socket.write(piece))
      await Promise.race([
        closed,
        new Promise<void>((resolve) => socket.once('drain', () => resolve())),
      ]);
  socket.destroy();
  await closed;
}

async function timed(
  call: () => Promise<{ status: number }>,
): Promise<{ status: number; ms: number }> {
  const start = performance.now();
  const { status } = await call();
  return { status, ms: performance.now() - start };
}

function rssOf({ pid }: TestServer): number {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

const max = (values: readonly number[]): number => Math.max(...values);

function report(t: TestContext, what: string, values: number[], unit: number, name: string): void {
  t.diagnostic(`${what}: ${values.map((value) => Math.round(value / unit)).join(', ')} ${name}`);
}
