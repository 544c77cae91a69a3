// Server start with the real program on either store: in the foreground, on demand by a command, and refused starts.
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
import { bin, cli, prepareStore, serverEnv, startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

test('a foreign Host or Origin is refused', async () => {
  const server = await sharedServer();
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

test('the startup message names the command that connects agents, with absolute paths', async (t) => {
  const home = join(tempFolder(t), 'home');
  await prepareStore(home);
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0'], {
    env: serverEnv(home),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  await until('the startup message is printed', () => printed.includes('Stop with ctrl-c'));
  assert.ok(printed.includes(`${bin} add --home ${home}\n`), printed);
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('a port that is in use is refused', async (t) => {
  const server = await sharedServer();
  const home = join(tempFolder(t), 'other');
  const second = await cli(home, ['serve', '--port', new URL(server.url).port]);
  assert.equal(second.code, 5);
  assert.match(second.stderr, /is already in use/);
});

test('ten concurrent commands on an empty home start one server, and only that one loads the application', async (t) => {
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  const loads = join(folder, 'loads');
  const recorder = join(import.meta.dirname, '..', 'fixtures', 'record-app-loads.ts');
  const env = { NODE_OPTIONS: `--import ${recorder}`, APP_LOADS_FILE: loads };
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => cli(home, ['list', '--json'], env)),
  );
  t.after(() => cli(home, ['stop']));
  // On a loaded machine a command may report what it waits for.
  const errorOf = (stderr: string) => stderr.replace(/^.* has not responded yet; .*\n/, '');
  for (const answer of answers) assert.deepEqual([answer.code, errorOf(answer.stderr)], [0, '']);
  const served = await until('the server logs that it is serving', () => {
    const lines = readFileSync(join(home, 'server.log'), 'utf8').split('\n');
    const serving = lines.filter((line) => line.includes('"serving"'));
    return serving.length > 0 ? serving : undefined;
  });
  assert.equal(served.length, 1);
  assert.equal(readFileSync(loads, 'utf8').trim().split('\n').length, 1);
  assert.equal(statSync(join(home, 'server.log')).mode & 0o777, 0o600);
});

test('a server started by a command exits when idle', async (t) => {
  const home = join(tempFolder(t), 'home');
  assert.equal((await cli(home, ['list'], { ERRAND_IDLE_EXIT_MS: '100' })).code, 0);
  await until('the server logs why it stops', () =>
    readFileSync(join(home, 'server.log'), 'utf8').includes('idle; stopping'),
  );
  await until('the server has exited', () => !existsSync(join(home, 'server.pid')));
});

test('a foreground server replaces one started by a command', async (t) => {
  const home = join(tempFolder(t), 'home');
  assert.equal((await cli(home, ['list'])).code, 0);
  const server = await startServer(t, { home });
  assert.equal((await server.api('GET', '/api/jobs')).status, 200);
});

test('a failed server start is reported by the command', async (t) => {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), '{"server": {"prot": 1}}');
  const answer = await cli(home, ['list']);
  assert.notEqual(answer.code, 0);
  assert.match(answer.stderr, /prot/);
});

test('a socket folder writable by others is refused', async (t) => {
  const folder = tempFolder(t);
  const place = join(folder, `errand-${process.getuid!()}`);
  mkdirSync(place);
  chmodSync(place, 0o777);
  for (const words of [['list'], ['serve', '--port', '0']]) {
    const answer = await cli(join(folder, 'home'), words, { XDG_RUNTIME_DIR: folder });
    assert.equal(answer.code, 7);
    assert.match(answer.stderr, /writable by other users[^]*XDG_RUNTIME_DIR/);
  }
});

test('a home that is not writable is refused', async (t) => {
  const folder = tempFolder(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  chmodSync(file, 0o600);
  // Not even root can create folders here.
  const nowhere = process.platform === 'linux' ? ['/proc/errand/home'] : [];
  for (const home of [join(file, 'home'), ...nowhere]) {
    for (const words of [['serve', '--port', '0'], ['list']]) {
      const answer = await cli(home, words);
      assert.equal(answer.code, 7);
      assert.match(answer.stderr, /is not writable/);
    }
  }
  const { stdout } = await cli(join(file, 'home'), ['doctor']);
  assert.match(stdout, /✗ home: .* is not writable/);
});

test('a shared folder is refused as home and left unchanged', async (t) => {
  const shared = tempFolder(t);
  chmodSync(shared, 0o1777);
  const answer = await cli(shared, ['list']);
  assert.equal(answer.code, 7);
  assert.match(answer.stderr, /shared folder[^]*Use a folder inside it/);
  assert.equal(statSync(shared).mode & 0o7777, 0o1777);
  assert.deepEqual(readdirSync(shared), []);
});

test('doctor reports its findings; an unknown command gets suggestions', async (t) => {
  const home = join(tempFolder(t), 'home');
  const findings = (await cli(home, ['doctor', '--json'])).json<{
    findings: { name: string; state: string }[];
  }>().findings;
  for (const name of ['Node', 'home', 'disk', 'shell', 'settings', 'server']) {
    assert.ok(
      findings.some((entry) => entry.name === name),
      name,
    );
  }
  const unknown = await cli(home, ['lst']);
  t.after(() => cli(home, ['stop']));
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /Did you mean `errand ls` or `errand list`/);
});
