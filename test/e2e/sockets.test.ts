// The private socket: clients find it through the home regardless of their environment. An unreachable socket is reported and
// starts no second server. Sockets of killed servers are removed.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isAlive } from '../../src/kinds/endpoint/workers/process.ts';
import { tempFolder } from '../helpers/folder.ts';
import { cli, startServer } from '../helpers/server.ts';
import { errandIn } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';

/** The environment of one shell: its own runtime folder and its own temp folder. */
function shell(t: TestContext): Record<string, string> {
  const folder = tempFolder(t);
  const [runtime, temp] = ['run', 'tmp'].map((name) => join(folder, name)) as [string, string];
  for (const one of [runtime, temp]) mkdirSync(one, { mode: 0o700 });
  return { XDG_RUNTIME_DIR: runtime, TMPDIR: temp };
}

const pidOf = (home: string) => Number(readFileSync(join(home, 'server.pid'), 'utf8'));

/** Counts the servers that clients started: each one logs its start or its failure. */
const startsIn = (home: string) =>
  readFileSync(join(home, 'server.log'), 'utf8').match(/"serving"|has the home/g)?.length ?? 0;

test('a second shell with another XDG_RUNTIME_DIR and TMPDIR uses the server of the first', async (t) => {
  const home = join(tempFolder(t), 'home');
  const [first, second] = [shell(t), shell(t)];
  t.after(async () => {
    const pid = existsSync(join(home, 'server.pid')) ? pidOf(home) : undefined;
    if (pid === undefined) return;
    process.kill(pid, 'SIGKILL');
    await until('the server has exited', () => !isAlive(pid, null));
  });
  // Concurrently: one of them starts the server, the other waits for it.
  const both = await Promise.all([first, second].map((env) => cli(home, ['list', '--json'], env)));
  for (const { code, stderr } of both) assert.equal(code, 0, stderr);
  const pid = pidOf(home);
  for (const env of [first, second, { XDG_RUNTIME_DIR: '', TMPDIR: '/nonexistent' }]) {
    const { code, stderr } = await cli(home, ['list', '--json'], env);
    assert.deepEqual([code, pidOf(home)], [0, pid], stderr);
  }
  // Killed: the record is stale, and one client starts one server.
  process.kill(pid, 'SIGKILL');
  await until('the server has exited', () => !isAlive(pid, null));
  assert.equal((await cli(home, ['list', '--json'], second)).code, 0);
  assert.notEqual(pidOf(home), pid);
  assert.ok(startsIn(home) <= 3, `${startsIn(home)} starts`);
});

test('an unreachable socket is reported immediately, and no second server is started', async (t) => {
  const env = shell(t);
  const server = await startServer(t, { env });
  const [socketPath] = readFileSync(join(server.home, 'server.socket'), 'utf8').split('\n');
  renameSync(socketPath!, `${socketPath!}.hidden`);
  const answers = await Promise.all([env, shell(t)].map((one) => cli(server.home, ['list'], one)));
  for (const { code, stderr } of answers) {
    assert.equal(code, 7);
    assert.match(
      stderr,
      new RegExp(
        `The server of this home is running \\(pid ${server.pid}\\), but its socket ${socketPath} is unreachable from here: ENOENT`,
      ),
    );
    assert.match(stderr, new RegExp(`kill ${server.pid}`));
  }
  assert.ok(!existsSync(join(server.home, 'server.log')), 'a server was started');
  const doctor = await cli(server.home, ['doctor', '--json'], shell(t));
  const { findings } = doctor.json<{ findings: { name: string; state: string; text: string }[] }>();
  const finding = findings.find(({ name }) => name === 'server')!;
  assert.equal(finding.state, 'problem');
  assert.match(finding.text, /unreachable from here/);
  renameSync(`${socketPath!}.hidden`, socketPath!);
  assert.equal((await server.cli('list')).code, 0);
});

test('a suspended server is reported after a second, and is an error after ten', async (t) => {
  const server = await startServer(t);
  const name = `The server of this home (pid ${server.pid})`;
  server.child.kill('SIGSTOP');
  const listing = errandIn(t, server.home, ['list', '--json']);
  await listing.shows(/The server of this home \(pid \d+\) has not responded yet; waiting/);
  if (process.env.ERRAND_TEST_DEEP === '1') {
    assert.equal(await listing.exited, 7);
    const { stderr } = await server.cli('list');
    assert.ok(
      stderr.includes(`errand: ${name} is running but did not respond within 10 s.`),
      stderr,
    );
    assert.ok(stderr.includes(`kill -CONT ${server.pid}`), stderr);
  }
  server.child.kill('SIGCONT');
  if (process.env.ERRAND_TEST_DEEP !== '1') assert.equal(await listing.exited, 0);
  assert.equal((await server.cli('list')).code, 0);
});

test('sockets of killed servers are removed by the next start and by doctor, live ones stay', async (t) => {
  const env = shell(t);
  const folder = join(env.XDG_RUNTIME_DIR!, `errand-${process.getuid!()}`);
  const sockets = () => readdirSync(folder).toSorted();
  const killed = await startServer(t, { env });
  const live = await startServer(t, { env });
  await killed.kill();
  assert.equal(sockets().length, 2);
  const next = await startServer(t, { env });
  await until('the stale socket is removed', () => sockets().length === 2);
  for (const { cli: call } of [live, next]) assert.equal((await call('list')).code, 0);
  await next.kill();
  assert.equal(sockets().length, 2);
  const doctor = await cli(live.home, ['doctor'], env);
  assert.match(doctor.stdout, /removed 1 stale sockets?/);
  assert.equal(sockets().length, 1);
  assert.equal((await live.cli('list')).code, 0);
  // Other files in that folder are kept.
  assert.ok(statSync(folder).isDirectory());
});
