// Dashboard sessions over HTTP with the real server: login, the cookie, requests of other pages, streams, and `errand open`.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { freePort } from '../helpers/port.ts';
import { cli, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const json = { 'content-type': 'application/json' };

/** Sends what a browser page of `origin` would send. */
async function send(
  url: string,
  method: string,
  path: string,
  { cookie, origin, headers, body }: Page = {},
): Promise<Response> {
  return fetch(`${url}${path}`, {
    method,
    headers: {
      ...(cookie === undefined ? {} : { cookie }),
      ...(origin === undefined ? {} : { origin }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

interface Page {
  cookie?: string;
  origin?: string;
  headers?: Record<string, string>;
  body?: unknown;
}

async function logIn(url: string, body: object): Promise<{ cookie: string; header: string }> {
  const response = await send(url, 'POST', '/login', { origin: url, headers: json, body });
  assert.equal(response.status, 204, await response.text());
  const header = response.headers.get('set-cookie')!;
  return { cookie: header.split(';')[0]!, header };
}

async function codeOf(home: string, ...flags: string[]): Promise<{ url: string; code: string }> {
  const opened = (await cli(home, ['open', '--json', ...flags])).json<{ url: string }>();
  const [url, code] = opened.url.split('/login#');
  return { url: url!, code: code! };
}

test('a browser logs in once with a code, and other pages cannot use its session', async (t) => {
  const server = await startServer(t);
  const { url, home } = server;
  const { code } = await codeOf(home);
  const { cookie, header } = await logIn(url, { code });
  assert.match(header, /; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
  assert.match(cookie, new RegExp(`^errand-[0-9a-f]{8}-${new URL(url).port}=[0-9a-z]{40}$`));
  const again = await send(url, 'POST', '/login', { origin: url, headers: json, body: { code } });
  assert.equal(again.status, 401, 'a code works once');
  const me = (await (await send(url, 'GET', '/api/me', { cookie })).json()) as Me;
  assert.equal(me.owner, 'owner');
  assert.equal(me.session!.isCurrent, true);
  assert.equal(me.server.url, url);
  assert.equal((await send(url, 'GET', '/api/me')).status, 401);

  await t.test('only the own page changes anything with the cookie', () => changes(server, cookie));
  await t.test('invalid logins are rejected', () => invalidLogins(url));
  await t.test('a read-only session changes nothing', () => readOnly(server));
  await t.test('streams end with the key of the session', () => streams(server));
  await t.test('sessions are listed and revoked', () => revocation(server, cookie));
});

interface Me {
  owner: string;
  scopes: string[];
  session?: { id: string; isCurrent: boolean; readOnly: boolean };
  server: { url: string };
}

async function changes({ url, api }: TestServer, cookie: string): Promise<void> {
  const run = { argv: ['true'], waitMs: 0 };
  const status = async (page: Page) =>
    (await send(url, 'POST', '/api/commands', { cookie, body: run, ...page })).status;
  const own = { origin: url, headers: json };
  assert.equal(await status(own), 200);
  const sameOrigin = { headers: { ...json, 'sec-fetch-site': 'same-origin' } };
  assert.equal(await status(sameOrigin), 200);
  const before = await jobCount(api);
  for (const [page, expected] of [
    [{ headers: json }, 403],
    [{ origin: 'http://evil.example', headers: json }, 403],
    [{ origin: 'null', headers: json }, 403],
    [{ origin: 'http://127.0.0.1:1', headers: json }, 403],
    [{ origin: url, headers: { ...json, 'sec-fetch-site': 'same-site' } }, 401],
    [{ origin: url, headers: { ...json, 'sec-fetch-site': 'cross-site' } }, 401],
    [{ origin: url }, 415],
    [{ origin: url, headers: { 'content-type': 'text/plain' } }, 415],
    [{ origin: url, headers: { 'content-type': 'application/x-www-form-urlencoded' } }, 415],
  ] as const)
    assert.equal(await status(page), expected, JSON.stringify(page));
  assert.equal(await jobCount(api), before, 'nothing was started');
  // A page on another port of this host counts as the same site: browsers send it the cookie.
  const neighbour = { cookie, headers: { 'sec-fetch-site': 'same-site' } };
  assert.equal((await send(url, 'GET', '/api/jobs', neighbour)).status, 401);
  assert.equal((await send(url, 'GET', '/api/jobs', { cookie })).status, 200);
  for (const other of ['/metrics', '/mcp', '/v2/none/health', '/internal/operations'])
    assert.equal((await send(url, 'GET', other, { cookie })).status, 401, other);
}

const jobCount = async (api: TestServer['api']): Promise<number> =>
  (await api('GET', '/api/jobs?limit=200')).json<{ jobs: unknown[] }>().jobs.length;

async function invalidLogins(url: string): Promise<void> {
  const status = async (page: Page) => (await send(url, 'POST', '/login', page)).status;
  const own = { origin: url, headers: json };
  assert.equal(await status({ ...own, body: {} }), 400);
  assert.equal(await status({ ...own, body: { code: 'a', key: 'b' } }), 400);
  assert.equal(await status({ ...own, body: { code: 7 } }), 400);
  assert.equal(await status({ ...own, body: { code: 'x'.repeat(300) } }), 400);
  assert.equal(await status({ ...own, body: { key: 'errand_unknown' } }), 401);
  assert.equal(await status({ ...own, body: { code: 'unknown', pad: 'x'.repeat(5000) } }), 413);
  assert.equal(await status({ origin: url, body: { code: 'a' } }), 415);
  assert.equal(await status({ origin: 'http://evil.example', headers: json, body: {} }), 403);
  const broken = await fetch(`${url}/login`, { method: 'POST', headers: json, body: '{' });
  assert.equal(broken.status, 400);
}

async function readOnly({ url, home }: TestServer): Promise<void> {
  const { code } = await codeOf(home, '--read-only');
  const { cookie } = await logIn(url, { code });
  const me = (await (await send(url, 'GET', '/api/me', { cookie })).json()) as Me;
  assert.deepEqual(me.scopes, ['read']);
  assert.equal(me.session!.readOnly, true);
  assert.equal((await send(url, 'GET', '/api/jobs', { cookie })).status, 200);
  const page = { cookie, origin: url, headers: json, body: {} };
  assert.equal((await send(url, 'POST', '/api/jobs/job_x/cancel', page)).status, 403);
  assert.equal((await send(url, 'POST', '/api/keys', page)).status, 403);
}

async function streams({ url, api }: TestServer): Promise<void> {
  const { key, id } = (await api('POST', '/api/keys', { owner: 'ann' })).json();
  const { cookie } = await logIn(url, { key });
  const accept = { accept: 'text/event-stream' };
  const watching = await send(url, 'GET', '/api/jobs/watch', { cookie, headers: accept });
  assert.equal(watching.status, 200);
  const socket = new WebSocket(`${url.replace('http', 'ws')}/api/jobs/watch`, {
    headers: { cookie, origin: url },
  });
  await once(socket, 'open');
  const messages: { event: string; data: { job: { name?: string } } }[] = [];
  socket.addEventListener('message', ({ data }) =>
    messages.push(JSON.parse(String(data)) as never),
  );
  const headers = { authorization: `Bearer ${String(key)}` };
  await api('POST', '/api/commands', { argv: ['true'], name: 'mine' }, headers);
  await until('the socket gets the event', () =>
    messages.some(({ data }) => data.job.name === 'mine'),
  );
  for (const origin of [undefined, 'http://evil.example'])
    await rejectedSocket(`${url.replace('http', 'ws')}/api/jobs/watch`, {
      cookie,
      ...(origin ? { origin } : {}),
    });
  const closed = once(socket, 'close');
  await api('DELETE', `/api/keys/${String(id)}`);
  await watching.text().catch(() => {});
  await closed;
  const after = await send(url, 'GET', '/api/me', { cookie });
  assert.equal(after.status, 401);
  assert.match(after.headers.get('set-cookie')!, /Max-Age=0/, 'a useless cookie is removed');
}

async function rejectedSocket(url: string, headers: Record<string, string>): Promise<void> {
  const socket = new WebSocket(url, { headers });
  const events: string[] = [];
  socket.addEventListener('open', () => events.push('open'));
  socket.addEventListener('error', () => events.push('error'));
  await once(socket, 'close');
  assert.ok(!events.includes('open'), JSON.stringify(headers));
}

async function revocation({ url, cli: run }: TestServer, cookie: string): Promise<void> {
  const { sessions } = (await run('session', 'list', '--json')).json<{
    sessions: { id: string }[];
  }>();
  const me = (await (await send(url, 'GET', '/api/me', { cookie })).json()) as Me;
  assert.ok(sessions.some(({ id }) => id === me.session!.id));
  const { cookie: other } = await logIn(url, { key: await ownerKey(run) });
  const page = { cookie: other, origin: url, headers: json };
  const { session } = (await (await send(url, 'GET', '/api/me', { cookie: other })).json()) as Me;
  assert.equal(
    (await send(url, 'POST', '/logout', { ...page, origin: 'http://evil.example' })).status,
    403,
  );
  assert.equal((await send(url, 'POST', '/logout', { cookie: other })).status, 403);
  assert.equal((await send(url, 'POST', '/logout', page)).status, 204);
  assert.equal((await send(url, 'GET', '/api/me', { cookie: other })).status, 401);
  const left = (await run('session', 'list', '--json')).json<{ sessions: { id: string }[] }>();
  assert.ok(!left.sessions.some(({ id }) => id === session!.id));
  assert.equal((await run('session', 'revoke', me.session!.id)).code, 0);
  assert.equal((await send(url, 'GET', '/api/me', { cookie })).status, 401);
  assert.equal((await run('session', 'revoke', 'ses_000000000000')).code, 4);
}

async function ownerKey(run: TestServer['cli']): Promise<string> {
  return (await run('key', 'create', '--scopes', 'admin', '--json')).json<{ key: string }>().key;
}

test('errand open starts a server with a port, and a session survives kill -9', async (t) => {
  const home = join(tempFolder(t), 'home');
  const port = await freePort();
  const env = { ERRAND_HOME: home };
  const folder = tempFolder(t);
  const opened = join(folder, 'opened');
  const browser = join(folder, 'browser');
  writeFileSync(browser, `#!/bin/sh\nprintf %s "$1" > ${opened}\n`);
  chmodSync(browser, 0o755);
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify({ server: { port, idleExitMs: 0 } }));
  t.after(() => cli(home, ['stop']));
  const shown = await cli(home, ['open'], { ...env, BROWSER: browser });
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /^opened http:\/\/127\.0\.0\.1:\d+\/ in the browser\n$/);
  assert.ok(!shown.stdout.includes('#'), 'the code is not printed');
  const [url, code] = readFileSync(opened, 'utf8').split('/login#');
  assert.equal(url, `http://127.0.0.1:${port}`);
  const { cookie } = await logIn(url, { code });

  const pid = Number(readFileSync(join(home, 'server.pid'), 'utf8'));
  process.kill(pid, 'SIGKILL');
  await until('the process is gone', () => !existsSync(`/proc/${pid}`) || isZombie(pid));
  assert.equal((await cli(home, ['list'])).code, 0, 'any command starts the next server');
  const me = await until('the next server listens on the same port', () =>
    send(url, 'GET', '/api/me', { cookie }),
  );
  assert.equal(me.status, 200, 'the session survived');
  assert.ok(existsSync(join(home, 'server.pid')), 'it stays up although it exits when idle');

  const failing = join(folder, 'failing');
  writeFileSync(failing, '#!/bin/sh\nexit 3\n');
  chmodSync(failing, 0o755);
  for (const BROWSER of [failing, join(folder, 'missing'), '']) {
    const printed = await cli(home, ['open'], {
      ...env,
      BROWSER,
      DISPLAY: '',
      WAYLAND_DISPLAY: '',
    });
    assert.match(printed.stdout, new RegExp(`^${url}/login#[0-9a-z]{40}\n$`), BROWSER);
    assert.match(printed.stderr, /within 60 s/);
  }
  const remote = await cli(home, ['open', '--print'], {
    ERRAND_URL: 'https://jobs.example.org/x/',
  });
  assert.equal(remote.stdout, 'https://jobs.example.org/x/login\n');
  assert.match(remote.stderr, /API key/);
});

/** Its parent has ended; the process that adopted it may collect it late. */
const isZombie = (pid: number): boolean => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));

test('a taken port is replaced by a free one', async (t) => {
  const holder = await takePort(t);
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify({ server: { port: holder } }));
  t.after(() => cli(home, ['stop']));
  const { url, code } = await codeOf(home);
  assert.notEqual(new URL(url).port, String(holder));
  await logIn(url, { code });
});

async function takePort(t: TestContext): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

test('behind an https proxy the cookie is Secure and limited to the base path', async (t) => {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  const settings = (publicUrl: string) =>
    writeFileSync(join(home, 'config.json'), JSON.stringify({ server: { publicUrl } }));
  settings('https://jobs.example.org/errand');
  const server = await startServer(t, { home });
  const headers = { ...json, host: 'jobs.example.org' };
  const page = { origin: 'https://jobs.example.org', headers };
  const { url } = await codeOf(home);
  assert.equal(url, 'https://jobs.example.org/errand');
  const response = await send(server.url, 'POST', '/login', { ...page, body: { key: server.key } });
  assert.equal(response.status, 204);
  const header = response.headers.get('set-cookie')!;
  assert.match(header, /^__Secure-errand-[0-9a-f]{8}-public=.*; Path=\/errand; .*; Secure$/);
  const cookie = header.split(';')[0]!;
  assert.equal((await send(server.url, 'GET', '/api/me', { cookie })).status, 200);
  const plain = cookie.replace('__Secure-', '');
  assert.equal((await send(server.url, 'GET', '/api/me', { cookie: plain })).status, 401);
  const foreign = { cookie, origin: server.url, headers: json, body: {} };
  assert.equal(
    (await send(server.url, 'POST', '/api/jobs/job_x/cancel', { ...foreign, ...page })).status,
    404,
  );
  await server.stop();
  settings('https://jobs.example.org');
  const root = await startServer(t, { home });
  const atRoot = await send(root.url, 'POST', '/login', { ...page, body: { key: root.key } });
  assert.match(atRoot.headers.get('set-cookie')!, /^__Host-errand-.*; Path=\/; .*; Secure$/);
});
