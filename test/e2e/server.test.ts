// The server's life, with the real program: start, refusals, keys, ends, and a home that was hurt.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { bin, cli, onPostgres, prepareStore, serverEnv, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

test('serve --json says one line; health needs no key, everything else looks the same without one', async (t) => {
  const server = await startServer(t);
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(statSync(server.home).mode & 0o777, 0o700);
  // A cluster has one owner key for all nodes, and no database in the home.
  const keyFile = join(server.home, onPostgres ? 'cluster-owner.key' : 'owner.key');
  assert.equal(statSync(keyFile).mode & 0o777, 0o600);
  assert.equal(readFileSync(keyFile, 'utf8').trim(), server.key);
  assert.equal(existsSync(join(server.home, 'errand.sqlite')), !onPostgres);
  if (!onPostgres) assert.equal(statSync(join(server.home, 'errand.sqlite')).mode & 0o777, 0o600);
  const health = await fetch(`${server.url}/health`);
  assert.equal(health.status, 200);
  const known = await fetch(`${server.url}/api/jobs`);
  const unknown = await fetch(`${server.url}/api/nothing-here`);
  assert.equal(known.status, 401);
  assert.equal(unknown.status, 401);
  const wrong = await server.api('GET', '/api/jobs', undefined, {
    authorization: 'Bearer errand_wrongwrongwrong',
  });
  assert.equal(wrong.status, 401);
  assert.equal((await server.api('GET', '/api/jobs')).status, 200);
  const missing = await server.api('GET', '/api/jobs/job_0000000000000000');
  assert.equal(missing.status, 404);
  assert.ok(missing.json<{ hint: string }>().hint);
  assert.equal(await server.stop(), 0);
});

test('a foreign Host or Origin is refused', async (t) => {
  const server = await startServer(t);
  const status = (headers: Record<string, string>) =>
    new Promise<number>((resolve, reject) => {
      const request = http.get(
        `${server.url}/api/jobs`,
        { headers: { authorization: `Bearer ${server.key}`, ...headers } },
        (response) => {
          response.resume();
          resolve(response.statusCode!);
        },
      );
      request.on('error', reject);
    });
  assert.equal(await status({ host: 'evil.example' }), 403);
  assert.equal(await status({ origin: 'https://evil.example' }), 403);
  assert.equal(await status({}), 200);
});

test('keys: scopes, expiry, rotation and owners', async (t) => {
  const server = await startServer(t);
  const make = async (...flags: string[]) =>
    (await server.cli('key', 'create', ...flags, '--json')).json<{ key: string; id: string }>();
  const as = (key: string, method: string, path: string, body?: unknown) =>
    server.api(method, path, body, { authorization: `Bearer ${key}` });
  const reader = await make('reader', '--owner', 'ada', '--scopes', 'read');
  assert.equal((await as(reader.key, 'GET', '/api/jobs')).status, 200);
  assert.equal((await as(reader.key, 'GET', '/api/keys')).status, 403);
  const brief = await make('brief', '--expires-in', '1s');
  await until(
    'the key has expired',
    async () => (await as(brief.key, 'GET', '/api/jobs')).status === 401,
  );
  const rotated = (await server.cli('key', 'rotate', reader.id, '--json')).json<{
    key: string;
    id: string;
  }>();
  assert.equal((await as(reader.key, 'GET', '/api/jobs')).status, 401);
  assert.equal((await as(rotated.key, 'GET', '/api/jobs')).status, 200);
  await server.cli('key', 'revoke', rotated.id);
  assert.equal((await as(rotated.key, 'GET', '/api/jobs')).status, 401);
});

test('a key sees only the jobs of its owner; the home’s owner sees all', async (t) => {
  const server = await startServer(t);
  const key = async (owner: string) =>
    (
      await server.cli('key', 'create', owner, '--owner', owner, '--scopes', 'read,run', '--json')
    ).json<{ key: string }>().key;
  const [ada, bob] = [await key('ada'), await key('bob')];
  const as = (secret: string, method: string, path: string, body?: unknown) =>
    server.api(method, path, body, { authorization: `Bearer ${secret}` });
  const started = await as(ada, 'POST', '/api/commands', { command: 'echo hers', waitMs: 20_000 });
  const { id } = started.json<{ id: string }>();
  const list = async (secret: string) =>
    (await as(secret, 'GET', '/api/jobs')).json<{ jobs: { id: string }[] }>().jobs.length;
  assert.deepEqual([await list(ada), await list(bob), await list(server.key)], [1, 0, 1]);
  for (const path of ['', '/output', '/events'])
    assert.equal((await as(bob, 'GET', `/api/jobs/${id}${path}`)).status, 404, path);
  for (const verb of ['cancel', 'retry', 'input'])
    assert.equal((await as(bob, 'POST', `/api/jobs/${id}/${verb}`, {})).status, 404, verb);
  assert.equal((await as(ada, 'GET', `/api/jobs/${id}/output`)).status, 200);
});

test('the greeting names every client with absolute paths', async (t) => {
  const home = join(tempFolder(t), 'home');
  await prepareStore(home);
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0'], {
    env: serverEnv(home),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  await until('it has greeted', () => said.includes('Stop with ctrl-c'));
  for (const client of ['Claude Code', 'Codex', 'Gemini CLI', 'opencode', 'Cursor']) {
    const line = said.split('\n').find((one) => one.includes(client));
    assert.ok(line?.includes(process.execPath) && line.includes(bin), client);
  }
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('a second server on one home is refused and names the first', async (t) => {
  const server = await startServer(t);
  const second = await cli(server.home, ['serve', '--json', '--port', '0']);
  assert.equal(second.code, 5);
  const { error } = second.json<{ error: { code: string; message: string } }>();
  assert.equal(error.code, 'conflict');
  assert.match(error.message, new RegExp(`process ${server.pid}`));
  assert.equal((await server.api('GET', '/api/jobs')).status, 200);
});

test('a taken port is refused and its holder named', async (t) => {
  const server = await startServer(t);
  const home = join(tempFolder(t), 'other');
  const second = await cli(home, ['serve', '--port', new URL(server.url).port]);
  assert.equal(second.code, 5);
  assert.match(second.stderr, /is taken/);
});

test('ten commands at once on an empty home start one server', async (t) => {
  const home = join(tempFolder(t), 'home');
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => cli(home, ['list', '--json'])),
  );
  t.after(() => cli(home, ['stop']));
  for (const answer of answers) assert.deepEqual([answer.code, answer.stderr], [0, '']);
  const served = await until('it says that it serves', () => {
    const lines = readFileSync(join(home, 'server.log'), 'utf8').split('\n');
    const serving = lines.filter((line) => line.includes('"serving"'));
    return serving.length > 0 ? serving : undefined;
  });
  assert.equal(served.length, 1);
  assert.equal(statSync(join(home, 'server.log')).mode & 0o777, 0o600);
});

test('a server that a command started ends by itself when there is nothing to do', async (t) => {
  const home = join(tempFolder(t), 'home');
  assert.equal((await cli(home, ['list'], { ERRAND_IDLE_EXIT_MS: '100' })).code, 0);
  await until('it says why it ends', () =>
    readFileSync(join(home, 'server.log'), 'utf8').includes('nothing to do'),
  );
  await until('it has ended', () => !existsSync(join(home, 'server.pid')));
});

test('a server in the foreground takes over from one that a command started', async (t) => {
  const home = join(tempFolder(t), 'home');
  assert.equal((await cli(home, ['list'])).code, 0);
  const server = await startServer(t, { home });
  assert.equal((await server.api('GET', '/api/jobs')).status, 200);
});

test('a failed start reaches the one who called', async (t) => {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), '{"server": {"prot": 1}}');
  const answer = await cli(home, ['list']);
  assert.notEqual(answer.code, 0);
  assert.match(answer.stderr, /prot/);
});

test('a socket folder that is not ours alone is refused', async (t) => {
  const folder = tempFolder(t);
  const place = join(folder, `errand-${process.getuid!()}`);
  mkdirSync(place);
  chmodSync(place, 0o777);
  for (const words of [['list'], ['serve', '--port', '0']]) {
    const answer = await cli(join(folder, 'home'), words, { XDG_RUNTIME_DIR: folder });
    assert.equal(answer.code, 7);
    assert.match(answer.stderr, /not yours alone[^]*XDG_RUNTIME_DIR/);
  }
});

test('a home that cannot be written is refused with a reason', async (t) => {
  const folder = tempFolder(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  chmodSync(file, 0o600);
  // A system folder in which nobody can make another, not even root.
  const nowhere = process.platform === 'linux' ? ['/proc/errand/home'] : [];
  for (const home of [join(file, 'home'), ...nowhere]) {
    for (const words of [['serve', '--port', '0'], ['list']]) {
      const answer = await cli(home, words);
      assert.equal(answer.code, 7);
      assert.match(answer.stderr, /cannot be written/);
    }
  }
  const { stdout } = await cli(join(file, 'home'), ['doctor']);
  assert.match(stdout, /✗ home: .* cannot be written/);
});

test('a folder for everybody is no home, and stays as it is', async (t) => {
  const shared = tempFolder(t);
  chmodSync(shared, 0o1777);
  const answer = await cli(shared, ['list']);
  assert.equal(answer.code, 7);
  assert.match(answer.stderr, /for everybody[^]*Name one within it/);
  assert.equal(statSync(shared).mode & 0o7777, 0o1777);
  assert.deepEqual(readdirSync(shared), []);
});

test('doctor says what it found; an unknown command says what there is', async (t) => {
  const home = join(tempFolder(t), 'home');
  const findings = (await cli(home, ['doctor', '--json'])).json<{
    findings: { name: string; state: string }[];
  }>().findings;
  for (const name of ['Node', 'home', 'disk', 'shell', 'settings', 'server']) {
    assert.ok(
      findings.some((one) => one.name === name),
      name,
    );
  }
  const unknown = await cli(home, ['lst']);
  t.after(() => cli(home, ['stop']));
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /Did you mean `errand ls` or `errand list`/);
});

test('SIGTERM right after the greeting drains', async (t) => {
  const home = join(tempFolder(t), 'home');
  await prepareStore(home);
  const child = spawn(process.execPath, [bin, 'serve', '--json', '--port', '0'], {
    env: serverEnv(home),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  child.kill('SIGTERM');
  const [code] = (await once(child, 'exit')) as [number];
  assert.equal(code, 0);
});

test('SIGTERM lets calls under way finish; a second one ends at once; the job goes on', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  const patient = { http: { stopTimeoutMs: 600_000 } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(patient));
  const first = await startServer(t, { home });
  const command = `echo here; ${awaitFile(`${folder}/go`)}; exit 6`;
  const call = first.api('POST', '/api/commands', { command, waitMs: 50_000 });
  const cut = assert.rejects(call);
  const jobs = () =>
    first
      .api('GET', '/api/jobs?status=running')
      .then((answer) => answer.json<{ jobs: { id: string }[] }>().jobs);
  const [job] = await until('it runs', async () => {
    const list = await jobs();
    return list.length > 0 ? list : undefined;
  });
  first.child.kill('SIGTERM');
  await until('it takes no new calls', () =>
    jobs().then(
      () => false,
      () => true,
    ),
  );
  assert.equal(first.child.exitCode, null, 'the call under way is waited for');
  first.child.kill('SIGTERM');
  const [code] = (await once(first.child, 'exit')) as [number];
  assert.equal(code, 143);
  await cut;
  writeFileSync(join(folder, 'go'), '');
  const second = await startServer(t, { home });
  await until('its true end', async () => {
    const view = await second.api('GET', `/api/jobs/${job!.id}`);
    return view.json<{ exitCode: number | null }>().exitCode === 6;
  });
});
