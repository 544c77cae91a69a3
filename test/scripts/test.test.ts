// The test runner removes everything from the temp folder when a run is interrupted or killed.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { until } from '../helpers/until.ts';

const runner = join(import.meta.dirname, '../../scripts/test.ts');

/** Starts a run of one file that starts a server, and waits until that server has a home. */
async function startRun(temp: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [runner, '--only', 'files', 'test/e2e/embedded.test.ts'], {
    // A test runner refuses to run inside another one unless this is removed.
    env: { ...process.env, TMPDIR: temp, NODE_TEST_CONTEXT: undefined },
    stdio: 'ignore',
  });
  const homes = () => globSync(`errand-test-run-${child.pid}-*/errand-t-*/*`, { cwd: temp });
  await until('a test has created files', () => homes().length > 0, 60_000);
  return child;
}

const remaining = (temp: string): string[] =>
  readdirSync(temp).filter((name) => !name.startsWith('errand-test-cache-'));

/** Processes with a path of the run in their environment. */
const running = (temp: string): string[] =>
  process.platform !== 'linux' ? [] : readdirSync('/proc').filter((pid) => isOf(temp, pid));

function isOf(temp: string, pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(temp);
  } catch {
    return false; // gone, or not a process
  }
}

test('Ctrl-C removes everything', async (t) => {
  const temp = realpathSync(tempFolder(t));
  const child = await startRun(temp);
  child.kill('SIGINT');
  assert.deepEqual(await once(child, 'exit'), [130, null]);
  assert.deepEqual(remaining(temp), []);
  assert.deepEqual(running(temp), []);
});

test('the next run removes what a killed run left behind', async (t) => {
  const temp = realpathSync(tempFolder(t));
  const killed = await startRun(temp);
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  assert.equal(remaining(temp).length, 1);
  const next = spawn(process.execPath, [runner, '--only', 'files', 'no-such-file'], {
    env: { ...process.env, TMPDIR: temp },
    stdio: 'ignore',
  });
  assert.deepEqual(await once(next, 'exit'), [1, null]);
  assert.deepEqual(remaining(temp), []);
  assert.deepEqual(running(temp), []);
});
