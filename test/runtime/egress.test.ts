// The guarded way out, against real servers on loopback that the policy of the test allows or does not.
import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import zlib from 'node:zlib';
import { AppError } from '../../src/errors.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { addressRefusal } from '../../src/runtime/egress/address.ts';
import { createEgress, type EgressOptions } from '../../src/runtime/egress/index.ts';
import { Policy } from '../../src/runtime/egress/policy.ts';
import { silentLog } from '../../src/runtime/log.ts';

function egressWith(allow: string[], more: Partial<EgressOptions> = {}) {
  const egress = createEgress({ policy: { allow }, clock: systemClock, log: silentLog, ...more });
  after(() => egress.close());
  return egress;
}

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function serveRaw(onSocket: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createTcp((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => onSocket(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const hits: string[] = [];
const port = await serve((request, response) => {
  hits.push(`${request.method} ${request.url}`);
  const url = new URL(request.url!, 'http://x');
  const status = Number(url.searchParams.get('status') ?? 302);
  const to = url.searchParams.get('to');
  if (to !== null) return void response.writeHead(status, { location: to }).end('moved');
  if (url.pathname === '/loop') return void response.writeHead(302, { location: '/loop' }).end();
  let body = '';
  request.on('data', (chunk: Buffer) => (body += chunk.toString()));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ method: request.method, path: request.url, headers: request.headers, body }),
    );
  });
});
const base = `http://127.0.0.1:${port}`;
const open = egressWith([`127.0.0.1:${port}`]);
const closed = egressWith([]);

interface Echo {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
}

const code = (expected: string) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, expected, error.message);
  return true;
};

describe('addresses', () => {
  it('knows every spelling of what is not public', () => {
    const refused = [
      '127.0.0.1', '127.8.8.8', '0.0.0.0', '0.1.2.3', '10.0.0.1', '172.16.0.1', '192.168.1.1',
      '169.254.169.254', '100.64.0.1', '100.100.100.200', '168.63.129.16', '192.0.0.192',
      '192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '192.88.99.1', '224.0.0.1',
      '240.0.0.1', '255.255.255.255', '::', '::1', '::127.0.0.1', '::ffff:10.0.0.1',
      '::ffff:7f00:1', '::ffff:0:127.0.0.1', '64:ff9b::10.0.0.1', '64:ff9b::a9fe:a9fe',
      '64:ff9b:1::8.8.8.8', '2002:7f00:1::', '2002:808:808::', '2001::1', 'fe80::1', 'fe80::1%eth0',
      'fec0::1', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '100::1', '2001:db8::1', '3fff::1',
      '4000::1', '2607:f8b0::200:5efe:7f00:1', 'nonsense', '',
    ]; // oxfmt-ignore
    for (const address of refused) assert.ok(addressRefusal(address), address);
    const open = ['8.8.8.8', '1.1.1.1', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8'];
    for (const address of open) assert.equal(addressRefusal(address), undefined, address);
  });

  it('refuses private destinations in any form, and names the setting', async () => {
    const hosts = [
      '127.0.0.1', '2130706433', '0x7f000001', '0x7f.1', '017700000001', '127.1', '127.0.0.1.',
      '①②⑦.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]', '0', '[::]', 'localhost', '169.254.169.254', '10.0.0.1',
    ]; // oxfmt-ignore
    for (const host of hosts) {
      await assert.rejects(
        closed.request({ url: `http://${host}:${port}/`, trust: 'guarded' }),
        (error: unknown) => {
          code('egressRefused')(error);
          assert.match(String((error as AppError).hint), /egress\.allow/);
          return true;
        },
        host,
      );
    }
    assert.deepEqual(hits, []);
    await assert.rejects(closed.request({ url: 'file:///etc/passwd', trust: 'trusted' }), {
      code: 'egressRefused',
    });
    await assert.rejects(closed.request({ url: 'nonsense', trust: 'guarded' }), {
      code: 'invalidInput',
    });
  });

  it('trusts what the operator named: by trust, host, port, address or range', async () => {
    const trusted = await closed.request({ url: `${base}/a`, trust: 'trusted' });
    assert.equal(trusted.status, 200);
    assert.equal(trusted.remoteAddress, '127.0.0.1');
    trusted.body.discard();
    // A connection that trust opened must not serve a guarded request to the same place.
    await assert.rejects(closed.request({ url: `${base}/a`, trust: 'guarded' }), {
      code: 'egressRefused',
    });
    const policy = new Policy({
      allow: [
        'wiki.local',
        '*.corp.example',
        'localhost:3000',
        '[::1]:80',
        '10.0.0.0/8',
        'fd00::/8',
      ],
    });
    const check = (host: string, p: number, address: string) => policy.check(host, p, address);
    check('wiki.local', 1, '192.168.0.1');
    check('WIKI.local.', 1, '192.168.0.1');
    check('a.b.corp.example', 1, '127.0.0.1');
    check('localhost', 3000, '127.0.0.1');
    check('anything', 80, '::1');
    check('x', 1, '10.200.0.1');
    check('x', 1, '::ffff:10.200.0.1');
    check('x', 1, 'fd12::1');
    check('x', 1, '8.8.8.8');
    assert.throws(() => check('localhost', 3001, '127.0.0.1'), code('egressRefused'));
    assert.throws(() => check('corp.example', 1, '127.0.0.1'), code('egressRefused'));
    assert.throws(() => check('x', 1, '11.0.0.1') ?? check('x', 1, '192.168.0.1'));
    assert.throws(() => new Policy({ allow: ['http://x/'] }), code('invalidInput'));
  });

  it('connects to the address it checked, whatever the name says next', async () => {
    let asked = 0;
    // Nothing listens at the first answer, which is allowed; the second would reach the server, but is not.
    const answers = ['127.0.0.2', '127.0.0.1'];
    const rebinding = egressWith([`127.0.0.2:${port}`], {
      limits: { connectTimeoutMs: 2000 },
      resolve: (_, done) => {
        const address = answers[Math.min(asked++, answers.length - 1)]!;
        done(null, [{ address, family: 4 }]);
      },
    });
    const before = hits.length;
    const get = () => rebinding.request({ url: `http://evil.example:${port}/`, trust: 'guarded' });
    await assert.rejects(get(), (error: AppError) => error.code !== 'egressRefused');
    assert.equal(asked, 1);
    await assert.rejects(get(), { code: 'egressRefused' });
    assert.equal(hits.length, before);
  });

  it('uses only the allowed ones of several addresses', async () => {
    const mixed = egressWith([`127.0.0.1:${port}`], {
      resolve: (_, done) =>
        done(null, [
          { address: '169.254.169.254', family: 4 },
          { address: '127.0.0.1', family: 4 },
        ]),
    });
    const url = `http://mixed.example:${port}/x`;
    const answer = await mixed.request({ url, trust: 'guarded' });
    assert.equal(answer.remoteAddress, '127.0.0.1');
    assert.equal(((await answer.body.json()) as Echo).headers.host, `mixed.example:${port}`);
  });

  it('opens plain connections under the same rules', async () => {
    await assert.rejects(closed.connect({ host: '127.0.0.1', port, trust: 'guarded' }), {
      code: 'egressRefused',
    });
    const socket = await closed.connect({ host: '127.0.0.1', port, trust: 'trusted' });
    socket.destroy();
    await assert.rejects(closed.connect({ host: '127.0.0.1', port: 1, trust: 'trusted' }), {
      code: 'egressFailed',
    });
  });
});

describe('redirects', () => {
  const go = (to: string, status = 302) => `${base}/?status=${status}&to=${encodeURIComponent(to)}`;

  it('follows and lists them, and checks each', async () => {
    const answer = await open.request({ url: go(go('/end')), trust: 'guarded' });
    assert.equal(answer.url, `${base}/end`);
    assert.deepEqual(
      answer.redirects.map(({ status }) => status),
      [302, 302],
    );
    assert.equal(((await answer.body.json()) as Echo).path, '/end');
    for (const to of [
      'http://169.254.169.254/latest',
      'http://[::1]/',
      'http://0x7f.1:1/',
      'file:///etc/passwd',
    ])
      await assert.rejects(open.request({ url: go(to), trust: 'guarded' }), {
        code: 'egressRefused',
      });
  });

  it('trusts a trusted server only for itself', async () => {
    const same = await closed.request({ url: go('/end'), trust: 'trusted' });
    assert.equal(same.url, `${base}/end`);
    same.body.discard();
    const other = `http://localhost:${port}/end`;
    await assert.rejects(closed.request({ url: go(other), trust: 'trusted' }), {
      code: 'egressRefused',
    });
  });

  it('counts them, and follows none when told so', async () => {
    const before = hits.length;
    await assert.rejects(open.request({ url: `${base}/loop`, trust: 'guarded', redirects: 3 }), {
      code: 'egressFailed',
    });
    assert.equal(hits.length - before, 4);
    const plain = await open.request({ url: go('/end'), trust: 'guarded', redirects: 0 });
    assert.equal(plain.status, 302);
    assert.equal(await plain.body.text(), 'moved');
  });

  it('keeps or turns the method as browsers do, and drops secrets at another origin', async () => {
    const send = async (status: number, body: string | AsyncIterable<Buffer> = 'data') => {
      const request = { url: go('/end', status), method: 'post', body, trust: 'guarded' as const };
      return (await (await open.request(request)).body.json()) as Echo;
    };
    assert.deepEqual(await send(302).then(({ method, body }) => [method, body]), ['GET', '']);
    assert.deepEqual(await send(303).then(({ method, body }) => [method, body]), ['GET', '']);
    assert.deepEqual(await send(307).then(({ method, body }) => [method, body]), ['POST', 'data']);
    const stream = (async function* () {
      yield Buffer.from('x');
    })();
    await assert.rejects(send(308, stream), { code: 'egressFailed' });
    const both = egressWith([`127.0.0.1:${port}`, `localhost:${port}`]);
    const headers = { Authorization: 'Bearer s', 'X-Api-Key': 'k', 'X-Plain': 'p', host: 'evil' };
    const across = await both.request({
      url: go(`http://localhost:${port}/end`),
      headers,
      trust: 'guarded',
    });
    const seen = ((await across.body.json()) as Echo).headers;
    assert.deepEqual(
      [seen.authorization, seen['x-api-key'], seen['x-plain'], seen.host],
      [undefined, undefined, 'p', `localhost:${port}`],
    );
    const within = await both.request({ url: go('/end'), headers, trust: 'guarded' });
    assert.equal(((await within.body.json()) as Echo).headers.authorization, 'Bearer s');
    const named = base.replace('//', '//user:p%40ss@');
    const basic = await both.request({ url: `${named}/end`, trust: 'guarded' });
    const { authorization } = ((await basic.body.json()) as Echo).headers;
    assert.equal(authorization, `Basic ${btoa('user:p@ss')}`);
    assert.ok(!basic.url.includes('user'));
  });
});

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

  it('decodes what it asked for, whole and piece by piece', async () => {
    for (const encoding of Object.keys(encodings)) {
      const path = `/page?encoding=${encodeURIComponent(encoding)}`;
      const answer = await get(path);
      assert.equal(answer.headers['content-encoding'], undefined, encoding);
      assert.equal(await answer.body.text(), text, encoding);
      assert.equal(await collect((await get(path)).body), text.length, encoding);
    }
    const raw = await get('/page?encoding=gzip', { decompress: false });
    assert.equal(raw.headers['content-encoding'], 'gzip');
    assert.equal(zlib.gunzipSync(await raw.body.bytes()).toString(), text);
    assert.equal(await (await get('/page?encoding=utf-8')).body.text(), text);
    assert.equal(await (await get('/cut')).body.text(), text);
  });

  it('stops a bomb at the cap, in every encoding', async () => {
    for (const encoding of ['gzip', 'br', 'zstd', 'deflate ']) {
      const path = `/bomb?encoding=${encodeURIComponent(encoding)}`;
      const whole = await get(path, { bytesMax: 1_000_000 });
      await assert.rejects(whole.body.bytes(), { code: 'egressTooLarge' }, encoding);
      const pieces = await get(path, { bytesMax: 1_000_000 });
      await assert.rejects(collect(pieces.body), { code: 'egressTooLarge' }, encoding);
    }
  });

  it('stops an endless body at the cap, and holds the sender back while nobody reads', async () => {
    const whole = await get('/endless', { bytesMax: 500_000 });
    await assert.rejects(whole.body.bytes(), { code: 'egressTooLarge' });
    const pieces = await get('/endless', { bytesMax: 5_000_000 });
    let first = 0;
    for await (const chunk of pieces.body) {
      first = chunk.length;
      break;
    }
    assert.ok(first > 0);
  });

  it('refuses a declared size over the cap, and believes no declared size', async () => {
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
  const folder = join(import.meta.dirname, '../fixtures/tls');
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

  it('checks the certificate against the name, at the address that was checked', async () => {
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

  it('gives up on a server that never answers, drips or goes silent', async () => {
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

  it('gives up on a connection that is never made whole', async () => {
    // Takes the connection and says nothing: the handshake waits for ever.
    const mute = await serveRaw(() => {});
    const url = `https://127.0.0.1:${mute}/`;
    await assert.rejects(egress.request({ url, trust: 'guarded' }), (error: AppError) => {
      assert.deepEqual([error.code, error.data?.phase], ['timeout', 'connect']);
      assert.match(error.message, /did not connect within 300 ms/);
      return true;
    });
  });

  it('stops when told, before, during and while reading', async () => {
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

  it('says what failed: refused port, unknown name, bad header', async () => {
    await assert.rejects(at(1, {}), (error: AppError) => error.data?.reason === 'connect');
    const nameless = egressWith([], {
      resolve: (_, done) => done(Object.assign(new Error('none'), { code: 'ENOTFOUND' }), []),
    });
    await assert.rejects(
      nameless.request({ url: 'http://nowhere.example/', trust: 'guarded' }),
      (error: AppError) => error.code === 'egressFailed' && error.data?.reason === 'dns',
    );
    await assert.rejects(
      open.request({ url: base, trust: 'guarded', headers: { 'x-bad': 'a\r\nb' } }),
      { code: 'invalidInput' },
    );
  });

  it('sends again when a kept connection was closed under it', async () => {
    let connections = 0;
    const sockets: Socket[] = [];
    const server = createTcp((socket) => {
      const isFirst = ++connections === 1;
      let requests = 0;
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', () => {
        // The first connection takes one request and breaks on the second.
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
    const one = egressWith(['127.0.0.1'], { limits: { connectionsPerOriginMax: 1 } });
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
    const few = egressWith(['127.0.0.1'], { limits: { connectionsPerOriginMax: 4 } });
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
