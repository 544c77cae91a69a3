// Responses through egress: sizes, encodings, certificates, timeouts and connections, against real servers on loopback.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import type { LookupAddress } from 'node:dns';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import zlib from 'node:zlib';
import type { AppError } from '../../../src/errors.ts';
import { egressWith, serve, serveRaw } from './kit.ts';

describe('sizes', () => {
  const text = 'page '.repeat(2000);
  const encodings: Record<string, (data: Buffer) => Buffer> = {
    gzip: zlib.gzipSync,
    br: zlib.brotliCompressSync,
    zstd: zlib.zstdCompressSync,
    deflate: zlib.deflateSync,
    'deflate ': zlib.deflateRawSync,
    'gzip, br': (data) => zlib.brotliCompressSync(zlib.gzipSync(data)),
  };
  const bomb = Buffer.alloc(40_000_000);
  const bombs = new Map<string, Buffer>();
  const sizes = serve((request, response) => {
    const url = new URL(request.url!, 'http://x');
    const encoding = url.searchParams.get('encoding') ?? '';
    if (url.pathname === '/bomb') {
      if (!bombs.has(encoding)) bombs.set(encoding, encodings[encoding]!(bomb));
      response.setHeader('content-encoding', encoding.trim());
      return void response.end(bombs.get(encoding));
    }
    if (url.pathname === '/cut') {
      response.setHeader('content-encoding', 'gzip');
      const packed = zlib.gzipSync(Buffer.from(text));
      return void response.end(packed.subarray(0, packed.length - 8));
    }
    if (url.pathname === '/endless') {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536)));
      };
      response.on('drain', more);
      return more();
    }
    response.setHeader('content-encoding', encoding.trim());
    response.end(encodings[encoding]?.(Buffer.from(text)) ?? text);
  });
  const get = async (path: string, more: object = {}) =>
    egressWith(['127.0.0.0/8']).request({
      url: `http://127.0.0.1:${await sizes}${path}`,
      trust: 'guarded',
      ...more,
    });
  const collect = async (body: AsyncIterable<Buffer>) => {
    let bytes = 0;
    for await (const chunk of body) bytes += chunk.length;
    return bytes;
  };

  it('decodes requested encodings, completely and in chunks', async () => {
    for (const encoding of Object.keys(encodings)) {
      const path = `/page?encoding=${encodeURIComponent(encoding)}`;
      const result = await get(path);
      assert.equal(result.headers['content-encoding'], undefined, encoding);
      assert.equal(await result.body.text(), text, encoding);
      assert.equal(await collect((await get(path)).body), text.length, encoding);
    }
    const raw = await get('/page?encoding=gzip', { decompress: false });
    assert.equal(raw.headers['content-encoding'], 'gzip');
    assert.equal(zlib.gunzipSync(await raw.body.bytes()).toString(), text);
    assert.equal(await (await get('/page?encoding=utf-8')).body.text(), text);
    assert.equal(await (await get('/cut')).body.text(), text);
  });

  it('stops a decompression bomb at the limit, in every encoding', async () => {
    for (const encoding of ['gzip', 'br', 'zstd', 'deflate ']) {
      const path = `/bomb?encoding=${encodeURIComponent(encoding)}`;
      const whole = await get(path, { maxBytes: 1_000_000 });
      await assert.rejects(whole.body.bytes(), { code: 'egressTooLarge' }, encoding);
      const pieces = await get(path, { maxBytes: 1_000_000 });
      await assert.rejects(collect(pieces.body), { code: 'egressTooLarge' }, encoding);
    }
  });

  it('stops an endless body at the limit and applies backpressure while nobody reads', async () => {
    const whole = await get('/endless', { maxBytes: 500_000 });
    await assert.rejects(whole.body.bytes(), { code: 'egressTooLarge' });
    const pieces = await get('/endless', { maxBytes: 5_000_000 });
    let first = 0;
    for await (const chunk of pieces.body) {
      first = chunk.length;
      break;
    }
    assert.ok(first > 0);
  });

  it('rejects a declared size over the limit and does not trust a declared size', async () => {
    const declared = await serveRaw((socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\nabc'),
    );
    const egress = egressWith(['127.0.0.1']);
    const at = (p: number, more: object = {}) =>
      egress.request({ url: `http://127.0.0.1:${p}/`, trust: 'guarded', ...more });
    await assert.rejects(at(declared), { code: 'egressTooLarge' });
    const short = await serveRaw((socket) =>
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc'),
    );
    await assert.rejects((await at(short)).body.bytes(), { code: 'egressFailed' });
    const long = await serveRaw((socket) =>
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcdefgh'),
    );
    const text = await at(long).then(
      ({ body }) => body.text(),
      (error: AppError) => error.code,
    );
    assert.ok(text === 'abc' || text === 'egressFailed', text);
    const huge = await serveRaw((socket) =>
      socket.write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(200_000)}\r\n\r\n`),
    );
    await assert.rejects(at(huge), { code: 'egressFailed' });
  });
});

describe('https', () => {
  const folder = join(import.meta.dirname, '../../fixtures/tls');
  const cert = readFileSync(join(folder, 'localhost.cert.pem'), 'utf8');
  const key = readFileSync(join(folder, 'localhost.key.pem'), 'utf8');
  const names: string[] = [];
  const server = createSecure({ cert, key }, (_, response) => void response.end('safe'));
  server.on('secureConnection', (socket) => names.push(String(socket.servername)));
  const ready = new Promise<number>((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  );
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  const options = {
    ca: cert,
    resolve: (_: string, done: (error: null, found: LookupAddress[]) => void) =>
      done(null, [{ address: '127.0.0.1', family: 4 }]),
  };

  it('accepts a self-signed certificate of a host that the operator trusts, and of no other', async () => {
    const port = await ready;
    const { resolve } = options;
    const print = new X509Certificate(cert).fingerprint256;
    const other = print.replace(/^../, (byte) => (byte === '00' ? '11' : '00'));
    const get = (host: string, trustCertificates: Record<string, string>) => {
      const policy = { allow: ['127.0.0.1'], trustCertificates };
      return egressWith([], { policy, resolve }).request({
        url: `https://${host}:${port}/`,
        trust: 'guarded',
      });
    };
    const isTls = (error: AppError) => error.data?.reason === 'tls';
    for (const trusted of [print, print.toLowerCase(), 'any'])
      assert.equal(
        await (await get('own.example', { 'own.example': trusted })).body.text(),
        'safe',
      );
    assert.equal((await get('own.example', { [`own.example:${port}`]: print })).status, 200);
    await assert.rejects(get('own.example', { 'own.example': other }), isTls);
    await assert.rejects(get('own.example', { 'else.example': 'any' }), isTls);
  });

  it('verifies the certificate for the name, at the checked address', async () => {
    const port = await ready;
    const egress = egressWith(['127.0.0.1'], options);
    const get = (host: string) =>
      egress.request({ url: `https://${host}:${port}/`, trust: 'guarded' });
    assert.equal(await (await get('tls.example')).body.text(), 'safe');
    assert.ok(names.includes('tls.example'));
    assert.equal(await (await get('127.0.0.1')).body.text(), 'safe');
    const isTls = (error: AppError) => error.data?.reason === 'tls';
    await assert.rejects(get('other.example'), isTls);
    const { resolve } = options;
    const strict = egressWith(['127.0.0.1'], { resolve });
    const url = `https://tls.example:${port}/`;
    await assert.rejects(strict.request({ url, trust: 'guarded' }), isTls);
    const guarded = egressWith([], options);
    await assert.rejects(guarded.request({ url, trust: 'guarded' }), { code: 'egressRefused' });
  });
});

describe('times', () => {
  const egress = egressWith(['127.0.0.1'], { limits: { connectTimeoutMs: 300 } });
  const at = (p: number, more: object) =>
    egress.request({ url: `http://127.0.0.1:${p}/`, trust: 'guarded', ...more });

  it('times out on a server that never responds, drips or goes silent', async () => {
    const silent = await serveRaw(() => {});
    await assert.rejects(at(silent, { headersTimeoutMs: 100 }), { code: 'timeout' });
    await assert.rejects(at(silent, { timeoutMs: 100 }), { code: 'timeout' });
    const stuck = await serveRaw((socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na'),
    );
    const started = await at(stuck, { bodyTimeoutMs: 100 });
    await assert.rejects(started.body.bytes(), { code: 'timeout' });
    const drip = await serveRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n');
      const timer = setInterval(() => socket.write('x'), 10);
      socket.on('close', () => clearInterval(timer));
    });
    const whole = async () => (await at(drip, { timeoutMs: 200 })).body.bytes();
    await assert.rejects(whole, { code: 'timeout' });
    const pieces = async () => {
      const { body } = await at(drip, { timeoutMs: 200 });
      for await (const chunk of body) assert.ok(chunk);
    };
    await assert.rejects(pieces, { code: 'timeout' });
  });

  it('times out on a TLS handshake that never completes', async () => {
    // Accepts the connection and sends nothing, so the handshake never completes.
    const silentPort = await serveRaw(() => {});
    const url = `https://127.0.0.1:${silentPort}/`;
    await assert.rejects(egress.request({ url, trust: 'guarded' }), (error: AppError) => {
      assert.deepEqual([error.code, error.data?.phase], ['timeout', 'connect']);
      assert.match(error.message, /did not connect within 300 ms/);
      return true;
    });
  });

  it('aborts before, during and while reading', async () => {
    const silent = await serveRaw(() => {});
    await assert.rejects(at(silent, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await assert.rejects(at(silent, { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
    const cancel = new AbortController();
    const cancelled = assert.rejects(at(silent, { signal: cancel.signal }), { name: 'AbortError' });
    cancel.abort('cancel');
    await cancelled;
    const stuck = await serveRaw((socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na'),
    );
    const controller = new AbortController();
    const { body } = await at(stuck, { signal: controller.signal });
    const reading = assert.rejects(body.bytes(), { name: 'AbortError' });
    controller.abort();
    await reading;
  });

  it('reports the cause: closed port, unknown name, invalid header', async () => {
    await assert.rejects(at(1, {}), (error: AppError) => error.data?.reason === 'connect');
    const nameless = egressWith([], {
      resolve: (_, done) => done(Object.assign(new Error('none'), { code: 'ENOTFOUND' }), []),
    });
    await assert.rejects(
      nameless.request({ url: 'http://nowhere.example/', trust: 'guarded' }),
      (error: AppError) => error.code === 'egressFailed' && error.data?.reason === 'dns',
    );
    await assert.rejects(at(1, { headers: { 'x-bad': 'a\r\nb' } }), { code: 'invalidInput' });
  });

  it('retries when the server closed a kept-alive connection', async () => {
    let connections = 0;
    const sockets: Socket[] = [];
    const server = createTcp((socket) => {
      const isFirst = ++connections === 1;
      let requests = 0;
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', () => {
        // The first connection serves one request and breaks on the second.
        if (isFirst && ++requests === 2) return socket.destroy();
        return socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const one = egressWith(['127.0.0.1'], { limits: { maxConnectionsPerOrigin: 1 } });
    const get = async (method: string) => {
      const url = `http://127.0.0.1:${port}/`;
      return (await one.request({ url, method, trust: 'guarded' })).body.text();
    };
    assert.equal(await get('GET'), 'ok');
    assert.equal(await get('GET'), 'ok');
    assert.equal(connections, 2);
  });

  it('keeps connections: many requests, few sockets', async () => {
    let connections = 0;
    const server = createServer((_, response) => void response.end('ok'));
    server.on('connection', () => connections++);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const few = egressWith(['127.0.0.1'], { limits: { maxConnectionsPerOrigin: 4 } });
    const all = await Promise.all(
      Array.from({ length: 200 }, async () => {
        const url = `http://127.0.0.1:${port}/`;
        return (await few.request({ url, trust: 'guarded' })).body.text();
      }),
    );
    assert.ok(all.every((text) => text === 'ok'));
    assert.ok(connections <= 4, String(connections));
  });
});
