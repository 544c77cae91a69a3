// The forward proxy for browsers: the same policy over plain HTTP and CONNECT.
import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { type AddressInfo, connect, createServer as createTcp } from 'node:net';
import { after, describe, it } from 'node:test';
import { systemClock } from '../../../src/runtime/clock.ts';
import { createEgress, createEgressProxy } from '../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../src/runtime/log.ts';

const site = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk: Buffer) => (body += chunk.toString()));
  request.on('end', () => {
    response.setHeader('set-cookie', ['a=1', 'b=2']);
    response.end(JSON.stringify({ url: request.url, headers: request.headers, body }));
  });
});
const echo = createTcp((socket) => void socket.pipe(socket));
await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
const sitePort = (site.address() as AddressInfo).port;
const echoPort = (echo.address() as AddressInfo).port;

const allow = [`127.0.0.1:${sitePort}`, `127.0.0.1:${echoPort}`];
const egress = createEgress({ policy: { allow }, clock: systemClock, log: silentLog });
const refused: string[] = [];
const proxy = await createEgressProxy({
  egress,
  clock: systemClock,
  log: silentLog,
  onRefused: (destination) => refused.push(destination),
  limits: { maxTunnelBytes: 100_000, tunnelIdleMs: 1500 },
});
const proxyPort = Number(new URL(proxy.url).port);
const password = `Basic ${btoa(`${proxy.username}:${proxy.password}`)}`;

after(async () => {
  await proxy.close();
  await egress.close();
  site.closeAllConnections();
  site.close();
  echo.close();
});

interface ProxyResponse {
  status: number;
  headers: Record<string, unknown>;
  text: string;
}

function plain(path: string, more: { auth?: string; body?: string } = {}): Promise<ProxyResponse> {
  const headers = { 'proxy-authorization': more.auth ?? password, 'x-mine': '1', te: 'trailers' };
  const method = more.body === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port: proxyPort, path, headers, method, agent: false };
    const sent = httpRequest(where, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, text }),
      );
    });
    sent.on('error', reject);
    sent.end(more.body);
  });
}

/** Sends a CONNECT and then the payload; returns everything received until the end. */
function tunnel(authority: string, payload: string, auth = password): Promise<string> {
  return new Promise((resolve) => {
    let all = '';
    const socket = connect(proxyPort, '127.0.0.1', () =>
      socket.write(
        `CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\nproxy-authorization: ${auth}\r\n\r\n`,
      ),
    );
    socket.once('data', () => socket.write(payload));
    socket.on('data', (chunk) => (all += chunk.toString()));
    socket.on('error', () => {});
    socket.on('close', () => resolve(all));
  });
}

describe('plain requests', () => {
  it('forwards them without hop-by-hop headers', async () => {
    const result = await plain(`http://127.0.0.1:${sitePort}/a?b=c`, { body: 'hello' });
    assert.equal(result.status, 200);
    assert.deepEqual(result.headers['set-cookie'], ['a=1', 'b=2']);
    const seen = JSON.parse(result.text) as { url: string; headers: object; body: string };
    assert.equal(seen.url, '/a?b=c');
    assert.equal(seen.body, 'hello');
    const names = Object.keys(seen.headers);
    assert.ok(names.includes('x-mine') && !names.includes('proxy-authorization'));
    assert.ok(!names.includes('te'));
  });

  it('refuses what the policy refuses and reports the reason to onRefused', async () => {
    const result = await plain('http://169.254.169.254/latest');
    assert.equal(result.status, 403);
    assert.equal(result.headers['x-errand-error'], 'egressRefused');
    assert.match(result.text, /egress\.allow/);
    assert.ok(refused.includes('http://169.254.169.254/latest'));
    assert.equal((await plain(`${proxy.url}/`)).status, 403);
    assert.equal((await plain('/relative')).status, 400);
    assert.equal((await plain('http://127.0.0.1:1/')).status, 403);
  });

  it('requires its password', async () => {
    const result = await plain(`http://127.0.0.1:${sitePort}/`, { auth: `Basic ${btoa('a:b')}` });
    assert.equal(result.status, 407);
    assert.match(String(result.headers['proxy-authenticate']), /Basic/);
  });
});

describe('tunnels', () => {
  it('forward both directions and end when idle', async () => {
    const all = await tunnel(`127.0.0.1:${echoPort}`, 'ping');
    assert.match(all, /^HTTP\/1\.1 200 [^]*ping$/);
  });

  it('end at the byte limit', async () => {
    const all = await tunnel(`127.0.0.1:${echoPort}`, 'x'.repeat(1_000_000));
    assert.ok(all.length < 300_000, String(all.length));
  });

  it('are refused like requests, in every spelling', async () => {
    for (const authority of [
      '169.254.169.254:443',
      '0x7f.1:443',
      '[::1]:443',
      'localhost:22',
      '2130706433:80',
    ])
      assert.match(await tunnel(authority, ''), /^HTTP\/1\.1 403 [^]*egress\.allow/, authority);
    assert.match(await tunnel('no good', ''), /^HTTP\/1\.1 400|^$/);
    assert.match(await tunnel('127.0.0.1:1/x', ''), /^HTTP\/1\.1 400/);
    assert.match(await tunnel(`127.0.0.1:${echoPort}`, '', 'Basic eDp5'), /^HTTP\/1\.1 407/);
  });
});
