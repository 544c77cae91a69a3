// A job that forks without end, where the limit of the policy binds: on a server of a user that is not root.
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

/** Of nobody on any machine: the kernel counts per user. */
const user = 2_014_711;
const processesMax = 60;
/** Would be 512 processes: enough to be stopped, too few to hurt where it is not. */
const bomb =
  'bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 300; }; bomb 8';

test('a fork bomb stops at the limit, the server answers, and cancel leaves nobody', async (t) => {
  if (process.platform !== 'linux') return t.skip('counts in /proc');
  const root = process.getuid?.() === 0;
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  const settings = { command: { policy: { processesMax }, killGraceMs: 300, checkMs: 100 } };
  writeFileSync(join(home, 'config.json'), JSON.stringify(settings), { mode: 0o600 });
  if (root) {
    chmodSync(folder, 0o755);
    for (const path of [home, join(home, 'config.json')]) chownSync(path, user, user);
  } else if (processesOf(process.getuid!()) > processesMax / 3) {
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
  const greeting = await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'close').then(() => undefined),
  ]);
  if (!greeting) return t.skip(`another user cannot run it from here: ${errors.slice(0, 200)}`);
  assert.doesNotMatch(String(greeting[0]), /"error"/, errors);
  const { url, key } = JSON.parse(String(greeting[0])) as { url: string; key: string };
  const call = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const post = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    return (await fetch(url + path, { headers, ...post })).json() as Promise<View>;
  };
  const owner = root ? user : process.getuid!();
  const job = await call('/api/commands', { command: bomb, cwd: '/', waitMs: 0 });
  await until('it was stopped by the limit', async () =>
    /[Rr]esource temporarily unavailable|Cannot fork/.test(
      (await call(`/api/jobs/${job.id}/output?mode=errors`)).text ?? '',
    ),
  );
  assert.ok(processesOf(owner) <= processesMax + 5, `${processesOf(owner)} processes`);
  assert.equal((await call(`/api/jobs/${job.id}`)).status, 'running', 'the server answers');
  const over = await call(`/api/jobs/${job.id}/cancel`, {});
  assert.equal(over.status, 'cancelled');
  await until('nobody is left but the server and its guard', () => processesOf(owner) < 15);
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
