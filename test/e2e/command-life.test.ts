// Commands with the real program: the behaviour that scripts and agents rely on, and the data that kill -9 must not lose.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile, isGone } from '../helpers/process.ts';
import { startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface View {
  id: string;
  status: string;
  stage?: string;
  exitCode: number | null;
  signal: string | null;
  pid?: number;
  error?: { code: string; message: string; hint?: string };
  output?: { text: string; next: number };
  existing?: boolean;
  [more: string]: unknown;
}

const fast = { command: { checkMs: 100, guardSeconds: 1, staleSeconds: 2, killGraceMs: 300 } };

async function run(server: TestServer, body: Record<string, unknown>): Promise<View> {
  const answer = await server.api('POST', '/api/commands', body);
  assert.equal(answer.status, 200, answer.text);
  return answer.json<View>();
}

const get = async (server: TestServer, id: string): Promise<View> =>
  (await server.api('GET', `/api/jobs/${id}`)).json<View>();

const ended = (server: TestServer, id: string): Promise<View> =>
  until(`${id} is over`, async () => {
    const view = await get(server, id);
    return ['completed', 'failed', 'cancelled', 'timed_out'].includes(view.status)
      ? view
      : undefined;
  });

/** A home that checks limits often. */
function quickHome(t: Parameters<typeof tempFolder>[0], settings: object = fast): string {
  const home = join(tempFolder(t), 'home');
  writeFolder(home);
  writeFileSync(join(home, 'config.json'), JSON.stringify(settings));
  return home;
}

function writeFolder(path: string): void {
  if (!existsSync(path)) mkdirSync(path, { recursive: true, mode: 0o700 });
}

const onSqlite = {
  skip: process.env.ERRAND_TEST_STORE === 'postgres' && 'the test edits the SQLite file itself',
};

describe('commands and kill -9', () => {
  test('exit code, signal, output and CPU time survive a restart', async (t) => {
    const folder = tempFolder(t);
    const home = quickHome(t);
    const first = await startServer(t, { home });
    const go = join(folder, 'go');
    const wait = awaitFile(go);
    const jobs = await Promise.all([
      run(first, { command: `echo before; ${wait}; echo after; exit 9`, waitMs: 0 }),
      run(first, { command: `${wait}; kill -SEGV $$`, waitMs: 0 }),
      run(first, { command: `${wait}; seq 1 20000 | sort -n | tail -1`, waitMs: 0 }),
    ]);
    const [failing] = jobs;
    await until('it prints', async () => {
      const read = await first.api('GET', `/api/jobs/${failing.id}/output`);
      return read.json<{ text: string }>().text.includes('before');
    });
    await first.kill();
    writeFileSync(go, '');
    const second = await startServer(t, { home });
    const [a, b, c] = await Promise.all(jobs.map(({ id }) => ended(second, id)));
    assert.deepEqual([a!.status, a!.exitCode, a!.error?.code], ['failed', 9, 'exitCode']);
    assert.deepEqual([b!.status, b!.exitCode, b!.signal], ['failed', null, 'SIGSEGV']);
    assert.deepEqual([c!.status, c!.exitCode], ['completed', 0]);
    const text = async (id: string) =>
      (await second.api('GET', `/api/jobs/${id}/output`)).json<{ text: string }>().text;
    assert.equal(await text(a!.id), 'before\nafter\n');
    assert.equal(await text(c!.id), '20000\n');
    assert.equal(typeof a!.cpuUserMs, 'number');
    assert.equal((a!.attempts as { number: number }).number, 1);
    // The run time ends with the process, not with the next check.
    for (const job of [a!, b!, c!])
      assert.equal((job.timings as { runMs: number }).runMs, job.runMs);
  });

  test('a job whose wrapper was also killed is lost, and none of its processes keep running', async (t) => {
    const home = quickHome(t);
    const first = await startServer(t, { home });
    const job = await run(first, { command: 'sleep 300 & echo $! ; wait', waitMs: 0 });
    const view = await until('it runs', async () => {
      const now = await get(first, job.id);
      return now.pid && Number(now.outputBytes) > 0 ? now : undefined;
    });
    await first.kill();
    process.kill(view.pid!, 'SIGKILL');
    const second = await startServer(t, { home });
    const end = await ended(second, job.id);
    assert.deepEqual([end.status, end.exitCode, end.error?.code], ['failed', null, 'lost']);
    const read = await second.api('GET', `/api/jobs/${job.id}/output`);
    const pid = read.json<{ text: string }>().text.trim();
    await until('the orphan has exited', () => !existsSync(`/proc/${pid}/environ`) || isGone(pid));
  });

  test('timeouts and output limits apply while no server runs', async (t) => {
    const folder = tempFolder(t);
    const home = quickHome(t);
    const first = await startServer(t, { home });
    const slow = await run(first, { command: 'echo slow; sleep 300', timeoutMs: 3000, waitMs: 0 });
    const loud = await run(first, {
      command: `while [ ! -f ${folder}/go ]; do sleep 0.1; done; while :; do echo 0123456789; sleep 0.001; done`,
      maxOutputBytes: 2000,
      waitMs: 0,
    });
    const left = await run(first, {
      command: `(while [ ! -f ${folder}/go ]; do sleep 0.1; done; while [ -f ${folder}/go ]; do echo 0123456789; sleep 0.001; done) & echo left`,
      maxOutputBytes: 2000,
    });
    assert.equal(left.status, 'completed');
    const pids = await until('all run', async () => {
      const views = await Promise.all([get(first, slow.id), get(first, loud.id)]);
      return views.every((view) => view.pid) ? views.map((view) => view.pid!) : undefined;
    });
    pids.push(...(left.leftBehind as number[]));
    await first.kill();
    writeFileSync(join(folder, 'go'), '');
    for (const pid of pids) await until('the guard ended it', () => isGone(String(pid)), 60_000);
    const second = await startServer(t, { home });
    const a = await ended(second, slow.id);
    assert.deepEqual([a.status, a.signal, a.error?.code], ['timed_out', 'SIGTERM', 'timeout']);
    const b = await ended(second, loud.id);
    assert.deepEqual([b.status, b.error?.code], ['failed', 'outputLimit']);
    assert.ok(Number(b.outputBytes) > 2000);
  });

  test(
    'time in system sleep does not count towards a timeout, even after a restart',
    onSqlite,
    async (t) => {
      const home = quickHome(t);
      const first = await startServer(t, { home });
      const job = await run(first, { command: 'sleep 300', timeoutMs: 60_000, waitMs: 0 });
      await until('it runs', async () => (await get(first, job.id)).pid);
      await first.kill();
      // As if it had started an hour ago and the machine had been asleep since then.
      const database = new DatabaseSync(join(home, 'errand.sqlite'));
      database.exec('UPDATE jobs SET started_at = started_at - 3600000');
      database.close();
      const slept = `${Math.floor(Date.now() / 1000) - 3500} 3590\n`;
      writeFileSync(join(home, 'command', 'gaps'), slept);
      const second = await startServer(t, { home });
      const waited = await second.api('POST', '/api/wait', { ids: [job.id], timeoutMs: 1000 });
      assert.equal(waited.json<{ done: boolean }>().done, false);
      const [line] = readFileSync(join(home, 'command', 'running.list'), 'utf8')
        .trim()
        .split('\n')
        .slice(-1);
      const [deadline, , , since] = line!.split(' ').map(Number);
      assert.equal(deadline! - since!, 60, 'the guard counts from the same beginning');
      await second.api('POST', `/api/jobs/${job.id}/cancel`, {});
      assert.equal((await ended(second, job.id)).status, 'cancelled');
    },
  );

  test('commands keep running after SIGTERM to the server, and the next server adopts them', async (t) => {
    const folder = tempFolder(t);
    const home = quickHome(t);
    const first = await startServer(t, { home });
    const job = await run(first, {
      command: `${awaitFile(`${folder}/go`)}; exit 5`,
      waitMs: 0,
    });
    await until('it runs', async () => (await get(first, job.id)).pid);
    assert.equal(await first.stop(), 0);
    const second = await startServer(t, { home });
    assert.equal((await get(second, job.id)).status, 'running');
    writeFileSync(join(folder, 'go'), '');
    assert.equal((await ended(second, job.id)).exitCode, 5);
  });
});
