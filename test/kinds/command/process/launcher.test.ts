// The launcher process: bursts go through it, and nothing is lost or run twice when it is killed.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { LaunchFolder } from '../../../../src/kinds/command/process/folder.ts';
import { launch } from '../../../../src/kinds/command/process/launch.ts';
import { Launcher } from '../../../../src/kinds/command/process/launcher.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';

function setUp(t: TestContext) {
  const path = tempFolder(t);
  const launcher = new Launcher(systemClock);
  t.after(() => launcher.close());
  const run = async (name: string, line: string) => {
    const folder = new LaunchFolder(join(path, name, '1.1'));
    const env = { PATH: process.env.PATH ?? '' };
    const words = { folder, argv: ['/bin/sh', '-c', line], cwd: path, env, attemptId: name };
    const launched = await launch({ ...words, stdin: 'none', streams: 'merged' }, launcher);
    return { folder, ...launched };
  };
  /** Starts enough commands concurrently to start the launcher, and waits until it is ready. */
  const burst = async () => {
    const all = await Promise.all(['w', 'x', 'y', 'z'].map((name) => run(name, 'exit 0')));
    for (const { ended } of all) await ended;
    await until('the launcher is ready', () => launcher.isReady);
  };
  return { path, launcher, run, burst };
}

test('single launches run in this process, bursts in the launcher', async (t) => {
  const { launcher, run, burst } = setUp(t);
  const alone = await run('alone', 'exit 4');
  await alone.ended;
  assert.equal(alone.folder.readExit()?.exitCode, 4);
  assert.equal(launcher.pid, undefined);
  await burst();
  assert.ok(launcher.pid);
  const many = await Promise.all(
    Array.from({ length: 10 }, (_, n) => run(`many${n}`, `echo hello; exit ${n}`)),
  );
  for (const [n, { ended, folder }] of many.entries()) {
    await ended;
    assert.equal(folder.readExit()?.exitCode, n);
  }
});

test('system errors in the launcher reach the caller unchanged', async (t) => {
  const { path, burst, launcher } = setUp(t);
  await burst();
  const folder = new LaunchFolder(join(path, 'bad', '1.1'));
  folder.create();
  const request = { command: '/no/such/shell', args: [], cwd: path, env: {}, out: folder.out };
  await assert.rejects(launcher.start(request, folder), { code: 'cannotStart' });
  const lost = { ...request, command: '/bin/sh', out: join(path, 'missing', 'out') };
  await assert.rejects(launcher.start(lost, folder), { code: 'ENOENT' });
});

test('after kill -9 of the launcher, its wrappers continue and their real exit codes are read', async (t) => {
  const { path, launcher, run, burst } = setUp(t);
  await burst();
  const go = join(path, 'go');
  const { folder, ended } = await run(
    'survivor',
    `until [ -e ${go} ]; do sleep 0.05; done; exit 7`,
  );
  await until('it has claimed', () => folder.readClaim().state === 'claimed');
  process.kill(launcher.pid!, 'SIGKILL');
  await until('the launcher is gone', () => launcher.pid === undefined);
  writeFileSync(go, '');
  await ended;
  assert.equal(folder.readExit()?.exitCode, 7);
});

test('kill -9 of the launcher before it started the wrapper reports cannotStart', async (t) => {
  const { path, launcher, run, burst } = setUp(t);
  await burst();
  process.kill(launcher.pid!, 'SIGSTOP');
  const waiting = run('never', `touch ${join(path, 'ran')}`);
  process.kill(launcher.pid!, 'SIGKILL');
  await assert.rejects(waiting, { code: 'cannotStart' });
  assert.equal(new LaunchFolder(join(path, 'never', '1.1')).readClaim().state, 'void');
  assert.equal(existsSync(join(path, 'ran')), false);
});

test('the launcher exits with its server, its wrappers continue', async (t) => {
  const { path, launcher, run, burst } = setUp(t);
  await burst();
  const go = join(path, 'go');
  const { folder } = await run('survivor', `until [ -e ${go} ]; do sleep 0.05; done; exit 3`);
  await until('it has claimed', () => folder.readClaim().state === 'claimed');
  launcher.close();
  await until('the launcher is gone', () => launcher.pid === undefined);
  writeFileSync(go, '');
  await until('it ended by itself', () => folder.readExit() !== undefined);
  assert.equal(folder.readExit()?.exitCode, 3);
});
