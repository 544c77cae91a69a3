// The server lifecycle on either store: keys, owners, a second server on the same home, and shutdown.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { bin, cli, onPostgres, prepareStore, serverEnv, startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

test('serve --json prints one line; without a key only /health responds', async (t) => {
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

test('keys: scopes, expiry, rotation and owners', async () => {
  const server = await sharedServer();
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

test('a key sees only the jobs of its owner; the home owner sees all jobs', async () => {
  const server = await sharedServer();
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

test('a second server on the same home is refused, and the error names the first', async () => {
  const server = await sharedServer();
  const second = await cli(server.home, ['serve', '--json', '--port', '0']);
  assert.equal(second.code, 5);
  const { error } = second.json<{ error: { code: string; message: string } }>();
  assert.equal(error.code, 'conflict');
  assert.match(error.message, new RegExp(`process ${server.pid}`));
  assert.equal((await server.api('GET', '/api/jobs')).status, 200);
});

test('SIGTERM right after the startup line stops the server gracefully', async (t) => {
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

test('SIGTERM waits for running calls, a second one exits immediately, and the job continues', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  const config = { http: { stopTimeoutMs: 600_000 } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  const first = await startServer(t, { home });
  const command = `echo here; ${awaitFile(`${folder}/go`)}; exit 6`;
  const call = first.api('POST', '/api/commands', { command, waitMs: 50_000 });
  const cut = assert.rejects(call);
  const jobs = () =>
    first
      .api('GET', '/api/jobs?status=running')
      .then((answer) => answer.json<{ jobs: { id: string }[] }>().jobs);
  const [job] = await until('the job runs', async () => {
    const list = await jobs();
    return list.length > 0 ? list : undefined;
  });
  first.child.kill('SIGTERM');
  await until('the server refuses new calls', () =>
    jobs().then(
      () => false,
      () => true,
    ),
  );
  assert.equal(first.child.exitCode, null, 'the server waits for the running call');
  first.child.kill('SIGTERM');
  const [code] = (await once(first.child, 'exit')) as [number];
  assert.equal(code, 143);
  await cut;
  writeFileSync(join(folder, 'go'), '');
  const second = await startServer(t, { home });
  await until('the exit code is recorded', async () => {
    const view = await second.api('GET', `/api/jobs/${job!.id}`);
    return view.json<{ exitCode: number | null }>().exitCode === 6;
  });
});
