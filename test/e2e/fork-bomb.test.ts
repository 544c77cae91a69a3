// A fork bomb under the process limit of the policy. The limit applies only to users other than root.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { bin, serverEnv } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

/** A user id without processes: the kernel counts processes per user. */
const user = 2_014_711;
const maxProcesses = 60;
/** Starts up to 512 processes: more than the limit, but few enough to be harmless if the limit fails. */
const bomb =
  'bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 300; }; bomb 8';

test('a fork bomb stops at the limit, the server keeps responding, and cancel kills every process', async (t) => {
  if (process.platform !== 'linux') return t.skip('requires /proc');
  const root = process.getuid?.() === 0;
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  const settings = { command: { policy: { maxProcesses }, killGraceMs: 300, checkMs: 100 } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(settings), { mode: 0o600 });
  if (root) {
    chmodSync(folder, 0o755);
    for (const path of [home, join(home, 'config.json')]) chownSync(path, user, user);
  } else if (processesOf(process.getuid!()) > maxProcesses / 3) {
    return t.skip('this user has too many processes already');
  }
  const child = spawn(process.execPath, [bin, 'serve', '--json', '--port', '0'], {
    env: { ...serverEnv(home), HOME: folder, TMPDIR: folder, XDG_RUNTIME_DIR: home },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(root ? { uid: user, gid: user } : {}),
  });
  t.after(() => child.kill('SIGKILL'));
  let errors = '';
  child.on('error', (error) => (errors += error.message));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const startupLine = await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'close').then(() => undefined),
  ]);
  if (!startupLine)
    return t.skip(`another user cannot run the server from here: ${errors.slice(0, 200)}`);
  assert.doesNotMatch(String(startupLine[0]), /"error"/, errors);
  const { url, key } = JSON.parse(String(startupLine[0])) as { url: string; key: string };
  const call = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const post = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    return (await fetch(url + path, { headers, ...post })).json() as Promise<View>;
  };
  const owner = root ? user : process.getuid!();
  const job = await call('/api/commands', { command: bomb, cwd: '/', waitMs: 0 });
  await until('the limit stopped the fork bomb', async () =>
    /[Rr]esource temporarily unavailable|Cannot fork/.test(
      (await call(`/api/jobs/${job.id}/output?mode=errors`)).text ?? '',
    ),
  );
  assert.ok(processesOf(owner) <= maxProcesses + 5, `${processesOf(owner)} processes`);
  assert.equal((await call(`/api/jobs/${job.id}`)).status, 'running', 'the server responds');
  const cancelled = await call(`/api/jobs/${job.id}/cancel`, {});
  assert.equal(cancelled.status, 'cancelled');
  await until('only the server and its watchdog are left', () => processesOf(owner) < 15);
});

interface View {
  id: string;
  status: string;
  text?: string;
}

function processesOf(uid: number): number {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const living = !/\) [ZX] /.test(readFileSync(`/proc/${name}/stat`, 'latin1'));
      return living && statSync(`/proc/${name}`).uid === uid;
    } catch {
      return false;
    }
  }).length;
}
