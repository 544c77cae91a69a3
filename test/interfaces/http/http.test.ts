// The HTTP interface over real sockets: routes, input, keys, errors, limits, hosts and origins.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { statSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Buckets } from '../../../src/interfaces/http/rate.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { AppError } from '../../../src/errors.ts';
import { until } from '../../helpers/until.ts';
import { call, startKit } from './kit.ts';

const kit = await startKit({
  limits: {
    maxBodyBytes: 2000,
    addressRate: 0,
    keyRate: 0,
  },
  allowedHosts: ['jobs.example.com', 'http://page.example.com:8080'],
});
const { port, socketPath } = kit;
const key = 'key-run';

describe('routes and input', () => {
  it('every operation has the route POST /api/<name> unless it defines its own', async () => {
    const response = await call(port, { path: '/api/echo', key, body: '{"text":"hi","n":2}' });
    assert.equal(response.status, 200);
    assert.deepEqual(response.json, { text: 'hi', n: 2 });
    assert.match(String(response.headers['content-type']), /^application\/json/);
    assert.equal(response.headers['cache-control'], 'no-store');
  });

  it('query values are converted to the types of the schema', async () => {
    const path =
      '/api/things?status=queued,running&limit=5&deep=true&sizes=1&sizes=2.5&text=a,b&after=null&range={"from":3}';
    const response = await call(port, { path: encodeURI(path), key });
    assert.deepEqual(response.json, {
      status: ['queued', 'running'],
      limit: 5,
      deep: true,
      sizes: [1, 2.5],
      text: 'a,b',
      after: null,
      range: { from: 3 },
    });
    assert.deepEqual((await call(port, { path: '/api/either?number=4', key })).json, { number: 4 });
    const bare = await call(port, { path: '/api/things?deep&status=', key });
    assert.deepEqual(bare.json, { limit: 20, deep: true, status: [] });
  });

  it('an error names the invalid field', async () => {
    const wrong = await call(port, { path: '/api/things?limit=many&bogus=1', key });
    assert.equal(wrong.status, 400);
    assert.match(String(wrong.json.detail), /limit/);
    assert.match(String(wrong.json.detail), /bogus/);
    const twice = await call(port, { path: '/api/things?limit=1&limit=2', key });
    assert.equal(twice.json.code, 'invalidInput');
  });

  it('path fields are decoded and win over body and query', async () => {
    const thing = await call(port, { path: '/api/things/a%2Fb%20c', key });
    assert.deepEqual(thing.json, { id: 'a/b c', caller: 'ann' });
    const cancel = { path: '/api/things/t1/cancel?force=1', key, body: '{"id":"t2","why":"old"}' };
    assert.deepEqual((await call(port, cancel)).json, { id: 't1', why: 'old', force: true });
    assert.equal((await call(port, { path: '/api/things/%zz', key })).status, 400);
    assert.equal((await call(port, { path: '/api/things/t1/', key })).status, 200);
  });

  it('HEAD returns the headers of GET without the body', async () => {
    const response = await call(port, { method: 'HEAD', path: '/api/things', key });
    assert.equal(response.status, 200);
    assert.equal(response.text, '');
  });

  it('a wrong method returns 405 and an unknown path 404', async () => {
    const wrong = await call(port, { method: 'PUT', path: '/api/things', key, body: '{}' });
    assert.equal(wrong.status, 405);
    assert.equal(wrong.headers.allow, 'GET');
    assert.equal(wrong.json.code, 'methodNotAllowed');
    const unknown = await call(port, { path: '/api/nothing', key });
    assert.equal(unknown.status, 404);
    assert.match(String(unknown.json.hint), /openapi/);
  });

  it('dialect routes have their own formats and limits', async () => {
    const run = await call(port, { path: '/v2/ep1/run', body: '{"text":"x"}', key });
    assert.equal(run.status, 202);
    assert.equal(run.headers['x-toy'], '1');
    assert.deepEqual(run.json, { endpoint: 'ep1', owner: 'ann', echo: { text: 'x' } });
    const broken = await call(port, { path: '/v2/ep1/run', body: '{', key });
    assert.equal(broken.json.code, 'invalidInput');
    const large = await call(port, { path: '/v2/ep1/run', body: ' '.repeat(101), key });
    assert.equal(large.status, 413);
    const file = await call(port, { path: '/v2/ep1/files/a/b?q=1' });
    assert.equal(file.text, `ep1 a/b http://127.0.0.1:${port} 1`);
    assert.equal((await call(port, { path: '/v2/ep1/stream', key })).text, 'one two');
    const bytes = await call(port, { path: '/v2/bytes' });
    assert.equal(bytes.headers['content-type'], 'application/octet-stream');
    assert.equal((await call(port, { path: '/v2/ep1/run', body: '{}' })).status, 401);
  });
});

describe('bad requests', () => {
  it('malformed JSON, wrong types and unusual bodies return a problem with a hint', async () => {
    const malformed = await call(port, { path: '/api/echo', key, body: '{"text":' });
    assert.equal(malformed.status, 400);
    assert.match(String(malformed.headers['content-type']), /^application\/problem\+json/);
    assert.equal(malformed.json.status, 400);
    assert.ok(malformed.json.hint);
    const list = await call(port, { path: '/api/echo', key, body: '[1]' });
    assert.match(String(list.json.detail), /not a JSON object/);
    const form = await call(port, {
      path: '/api/echo',
      key,
      body: 'a=b',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    assert.equal(form.status, 415);
    assert.equal((await call(port, { path: '/api/echo', key, body: '' })).status, 200);
    const proto = await call(port, { path: '/api/echo', key, body: '{"__proto__":{"text":"x"}}' });
    assert.match(String(proto.json.detail), /has no field __proto__/);
    const misspelt = await call(port, { path: '/api/echo', key, body: '{"txt":"x"}' });
    assert.deepEqual([misspelt.status, misspelt.json.hint], [400, 'Accepted fields: text, n.']);
  });

  it('a body over the limit is rejected, with and without content-length', async () => {
    const declared = await call(port, { path: '/api/echo', key, body: 'x'.repeat(2001) });
    assert.equal(declared.status, 413);
    assert.match(String(declared.json.hint), /http\.maxBodyBytes/);
    const headers = { 'transfer-encoding': 'chunked' };
    const chunked = await call(port, { path: '/api/echo', key, body: 'x'.repeat(3000), headers });
    assert.equal(chunked.status, 413);
    const huge = await call(port, { path: '/api/echo', key, body: 'x'.repeat(4_000_000) });
    assert.equal(huge.status, 413);
    assert.equal((await call(port, { path: '/health' })).status, 200);
  });

  it('an expected error includes its data, and an unexpected one no detail', async () => {
    const expected = await call(port, { path: '/api/break_things', key, body: '{"how":"app"}' });
    assert.equal(expected.status, 409);
    assert.equal(expected.json.code, 'wrongState');
    assert.deepEqual(expected.json.data, { id: 'x' });
    const plain = await call(port, { path: '/api/break_things', key, body: '{"how":"plain"}' });
    assert.equal(plain.status, 500);
    assert.ok(!plain.text.includes('secret'));
  });

  it('input that is not HTTP and oversized headers get an error response', async () => {
    const raw = (text: string) =>
      new Promise<string>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(text));
        let all = '';
        socket.on('data', (chunk) => (all += chunk.toString()));
        socket.on('error', () => resolve(all));
        socket.on('close', () => resolve(all));
      });
    assert.match(await raw('hello\r\n\r\n'), /^HTTP\/1\.1 400 [^]*problem\+json/);
    const long = `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`;
    assert.match(await raw(long), /^HTTP\/1\.1 431 /);
    const absolute = 'GET http://evil/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n';
    assert.match(await raw(absolute), /^HTTP\/1\.1 400 /);
    const twoHosts =
      'GET /health HTTP/1.1\r\nhost: localhost\r\nHost: evil\r\nconnection: close\r\n\r\n';
    assert.match(await raw(twoHosts), /^HTTP\/1\.1 400 [^]*more than one Host/);
  });
});

describe('keys', () => {
  it('a key is accepted as Bearer, as x-api-key and bare', async () => {
    const path = '/api/things/t1';
    const owner = async (headers: Record<string, string>) =>
      (await call(port, { path, headers })).json.caller;
    assert.equal(await owner({ authorization: 'Bearer key-run' }), 'ann');
    assert.equal(await owner({ authorization: 'bearer  key-run' }), 'ann');
    assert.equal(await owner({ authorization: 'key-read' }), 'bob');
    assert.equal(await owner({ 'x-api-key': 'key-run' }), 'ann');
  });

  it('only health, the OpenAPI documents and public operations work without a key', async () => {
    const health = await call(port, { path: '/health' });
    assert.deepEqual(health.json, { status: 'ok', version: '1.2.3' });
    assert.equal((await call(port, { path: '/api/things/t1' })).json.caller, 'nobody');
    assert.equal((await call(port, { path: '/openapi.json' })).json.openapi, '3.1.0');
    assert.equal((await call(port, { path: '/openapi-internal.json' })).status, 200);
    const secrets = ['/api/things', '/api/unknown', '/', '/api/things/%zz/%zz/x'];
    const responses = await Promise.all(secrets.map((path) => call(port, { path })));
    for (const response of responses) {
      assert.equal(response.status, 401);
      assert.equal(response.text, responses[0]!.text);
      assert.equal(response.headers['www-authenticate'], 'Bearer');
    }
    const wrongMethod = await call(port, { method: 'DELETE', path: '/api/things' });
    assert.equal(wrongMethod.text, responses[0]!.text);
  });

  it('a wrong key is rejected even where none is required, and so is a key without the scope', async () => {
    assert.equal((await call(port, { path: '/api/things/t1', key: 'stolen' })).status, 401);
    const health = await call(port, { path: '/health', key: 'stolen' });
    assert.equal(health.status, 200, 'a health check ignores keys');
    const cancel = { path: '/api/things/t1/cancel', body: '{"why":"x"}' };
    const rejected = await call(port, { ...cancel, key: 'key-read' });
    assert.equal(rejected.status, 403);
    assert.match(String(rejected.json.detail), /scope `run`/);
  });
});

describe('private socket', () => {
  it('the caller is the owner with its own folder, and other users have no access', async () => {
    const headers = { 'x-errand-origin': originHeader({ cwd: '/work/é', env: { A: 'b' } }) };
    const local = await call(port, { socketPath, path: '/api/where', headers });
    assert.deepEqual(local.json, { cwd: '/work/é', local: true });
    const remote = await call(port, { path: '/api/where', headers, key });
    assert.deepEqual(remote.json, { cwd: null, local: false });
    assert.equal(statSync(socketPath).mode & 0o777, 0o600);
    const broken = { 'x-errand-origin': 'e30x' };
    const rejected = await call(port, { socketPath, path: '/api/where', headers: broken });
    assert.equal(rejected.status, 400);
  });

  it('an environment far larger than a usual header is accepted', async () => {
    const env = { PATH: '/x:'.repeat(60_000) };
    const headers = { 'x-errand-origin': originHeader({ cwd: '/w', env }) };
    assert.equal((await call(port, { socketPath, path: '/api/where', headers })).status, 200);
  });

  it('a key that is sent is still checked', async () => {
    const path = '/api/things/t1';
    assert.equal((await call(port, { socketPath, path })).json.caller, 'me');
    assert.equal((await call(port, { socketPath, path, key: 'key-read' })).json.caller, 'bob');
    assert.equal((await call(port, { socketPath, path, key: 'stolen' })).status, 401);
  });
});

describe('hosts and origins', () => {
  const path = '/health';
  it('a foreign Host is rejected', async () => {
    const status = async (host: string) => (await call(port, { path, headers: { host } })).status;
    assert.equal(await status('evil.example.com'), 403);
    assert.equal(await status('169.254.169.254'), 403);
    assert.equal(await status(`LOCALHOST:${port}`), 200);
    assert.equal(await status(`127.0.0.1:${port}`), 200);
    assert.equal(await status('[::1]:99'), 200);
    assert.equal(await status('jobs.example.com'), 200);
    assert.equal(await status('evil.example.com'), 403);
  });

  it('a foreign Origin is rejected, and an allowed one gets CORS headers', async () => {
    const get = (origin: string) => call(port, { path, headers: { origin } });
    assert.equal((await get('http://evil.example.com')).status, 403);
    assert.equal((await get('http://localhost:3000')).status, 403);
    assert.equal((await get('null')).status, 403);
    assert.equal((await get(`http://127.0.0.1:${port}`)).status, 200);
    const allowed = await get('http://page.example.com:8080');
    assert.equal(allowed.headers['access-control-allow-origin'], 'http://page.example.com:8080');
    const preflight = await call(port, {
      method: 'OPTIONS',
      path: '/api/echo',
      headers: { origin: 'http://page.example.com:8080' },
    });
    assert.equal(preflight.status, 204);
    assert.match(String(preflight.headers['access-control-allow-headers']), /authorization/);
  });
});

describe('a public address', () => {
  it('is allowed as Host and Origin, and appears in links', async () => {
    const { port } = await startKit({ publicUrl: 'https://errand.example.com/' });
    const headers = { host: 'errand.example.com', origin: 'https://errand.example.com' };
    const response = await call(port, { path: '/v2/ep/files/x', headers });
    assert.equal(response.text, 'ep x https://errand.example.com null');
    const rewritten = { origin: 'https://errand.example.com' };
    assert.equal((await call(port, { path: '/health', headers: rewritten })).status, 200);
  });
});

describe('rates', () => {
  it('keys and addresses have separate limits, and the private socket has none', async () => {
    const limited = await startKit({
      limits: {
        keyRate: 0.001,
        keyBurst: 2,
        addressRate: 0.001,
        addressBurst: 1,
      },
    });
    const path = '/api/things/t1';
    const status = async (more: object) => (await call(limited.port, { path, ...more })).status;
    assert.deepEqual([await status({ key }), await status({ key })], [200, 200]);
    const rejected = await call(limited.port, { path, key });
    assert.equal(rejected.status, 429);
    assert.match(String(rejected.json.hint), /http\.keyRate/);
    assert.ok(Number(rejected.headers['retry-after']) >= 1);
    assert.equal(await status({ key: 'key-read' }), 200);
    assert.deepEqual([await status({}), await status({})], [200, 429]);
    for (let i = 0; i < 4; i++) assert.equal(await status({ socketPath: limited.socketPath }), 200);
    assert.equal((await call(limited.port, { path: '/health' })).status, 200);
  });

  it('buckets refill over time, and idle ones are deleted', () => {
    const clock = new ManualClock();
    const buckets = new Buckets({ perSecond: 2, burst: 2 }, clock);
    assert.deepEqual([buckets.take('a'), buckets.take('a'), buckets.take('a')], [0, 0, 500]);
    clock.jump(500);
    assert.deepEqual([buckets.take('a'), buckets.take('a')], [0, 500]);
    clock.jump(-10_000);
    assert.ok(buckets.take('a') > 0);
    for (let i = 0; i < 30_000; i++) buckets.take(`n${i}`);
    assert.ok((buckets as unknown as { buckets: Map<string, unknown> }).buckets.size <= 10_000);
  });
});

describe('mounts', () => {
  it('a mounted handler receives the requests of its prefix, with the caller', async () => {
    const { httpInterface, port, socketPath } = await startKit();
    httpInterface.mount('/mcp', (_, response, { caller, path, search }) => {
      response.end(`${caller?.owner} ${path} ${search}`);
    });
    httpInterface.mount('/internal', (_, response) => void response.end('inside'), {
      auth: 'local',
    });
    httpInterface.mount('/', (_, response, { path }) => path === '/' && !!response.end('page'), {
      auth: 'none',
    });
    assert.equal((await call(port, { path: '/mcp/x?a=1', key })).text, 'ann /x a=1');
    assert.equal((await call(port, { path: '/mcp', key, body: '{}' })).text, 'ann / ');
    assert.equal((await call(port, { path: '/mcp' })).status, 401);
    assert.equal((await call(port, { path: '/mcpx', key })).status, 404);
    assert.equal((await call(port, { path: '/internal/tools', key })).status, 404);
    assert.equal((await call(port, { path: '/internal/tools', socketPath })).text, 'inside');
    assert.equal((await call(port, { path: '/' })).text, 'page');
    assert.equal((await call(port, { path: '/else' })).status, 401);
  });
});

describe('listening', () => {
  it('the error names the process that uses the port', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const taken = (other.address() as AddressInfo).port;
    await assert.rejects(
      kit.httpInterface.listenTcp({ port: taken, host: '127.0.0.1' }),
      (error) => {
        assert.ok(error instanceof AppError);
        assert.equal(error.code, 'conflict');
        if (process.platform === 'linux') assert.match(error.message, new RegExp(`${process.pid}`));
        return true;
      },
    );
    other.close();
  });

  it('a socket that another server uses is rejected', async () => {
    await assert.rejects(kit.httpInterface.listenSocket(socketPath), { code: 'conflict' });
    assert.equal((await call(port, { socketPath, path: '/health' })).status, 200);
  });
});

describe('disconnecting and stopping', () => {
  it('the signal of a call aborts when its client disconnects', async () => {
    const { port, seen } = await startKit();
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(
        'POST /api/wait_thing HTTP/1.1\r\nhost: localhost\r\nx-api-key: key-run\r\n' +
          'content-type: application/json\r\ncontent-length: 14\r\n\r\n{"name":"one"}',
      ),
    );
    await until('the call runs', () => seen.waiting.includes('one'));
    socket.destroy();
    await until('its signal aborts', () => seen.aborted.includes('one'));
  });

  it('a stop lets open calls finish and accepts no new ones', async () => {
    const { httpInterface, port, seen } = await startKit();
    const slow = call(port, { path: '/api/wait_thing', key, body: '{"name":"two"}' });
    await until('the call runs', () => seen.waiting.includes('two'));
    const stopped = httpInterface.stop();
    await assert.rejects(call(port, { path: '/health' }), { code: 'ECONNREFUSED' });
    seen.release();
    assert.deepEqual((await slow).json, { name: 'two' });
    await stopped;
    assert.deepEqual(seen.aborted, []);
    await httpInterface.stop();
  });

  it('a stop waits at most stopTimeoutMs', async () => {
    const { httpInterface, port, seen } = await startKit({ limits: { stopTimeoutMs: 50 } });
    const slow = call(port, { path: '/api/wait_thing', key, body: '{"name":"three"}' });
    const lost = assert.rejects(slow);
    await until('the call runs', () => seen.waiting.includes('three'));
    await httpInterface.stop();
    assert.deepEqual(seen.aborted, ['three']);
    await lost;
    await until('every connection is gone', () => httpInterface.connections() === 0);
  });
});

/** Encodes the header as the bridge and the command line do. */
function originHeader(origin: { cwd?: string; env?: Record<string, string> }): string {
  return Buffer.from(JSON.stringify(origin)).toString('base64url');
}
