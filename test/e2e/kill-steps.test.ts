// kill -9 of all our processes at every step of a job. Each step recreates the state after such a kill: a ledger with status
// "running" and partial attempt files. The next server must continue from there without losing, repeating or inventing a
// result.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LaunchFolder } from '../../src/kinds/command/process/folder.ts';
import { bootId, signalProcess } from '../../src/runtime/process-identity.ts';
import { Registry } from '../../src/kinds/command/process/registry.ts';
import { identityOf, markHolders } from '../../src/kinds/command/process/tree.ts';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface View {
  id: string;
  status: string;
  exitCode: number | null;
  error?: { code: string };
  attempts: { number: number };
}

interface Left {
  folder: LaunchFolder;
  /** Lets the payload exit. */
  open(): void;
  /** Kills wrapper and payload, as if they had never reached this step. */
  killProcesses(): Promise<void>;
}

/** The state after the kill, the expected end of the job, and how often its payload must have run in total. */
const steps: Record<string, { setUp(left: Left): Promise<void> | void; end: string; ran: number }> =
  {
    'before the folder is created': {
      setUp: async ({ folder, killProcesses }) => {
        await killProcesses();
        rmSync(join(folder.path, '..'), { recursive: true });
      },
      end: 'failed 4 exitCode',
      ran: 1,
    },
    'after the folder is created and before the wrapper starts': {
      setUp: async ({ folder, killProcesses }) => {
        await killProcesses();
        rmSync(folder.claim);
        truncateSync(folder.out);
      },
      end: 'failed 4 exitCode',
      ran: 1,
    },
    'while the wrapper writes its claim': {
      setUp: async ({ folder, killProcesses }) => {
        await killProcesses();
        truncateSync(folder.claim);
      },
      end: 'failed 4 exitCode',
      ran: 1,
    },
    'after a launch was voided and before the next one': {
      setUp: async ({ folder, killProcesses }) => {
        await killProcesses();
        writeFileSync(folder.claim, 'void\n');
      },
      end: 'failed 4 exitCode',
      ran: 1,
    },
    'while the payload runs': { setUp: () => {}, end: 'failed 4 exitCode', ran: 1 },
    'after the exit record and before the ledger entry': {
      setUp: async ({ folder, open }) => {
        open();
        await until('the record is complete', () => folder.readExit());
      },
      end: 'failed 4 exitCode',
      ran: 1,
    },
    'while the wrapper writes the exit record': {
      setUp: async ({ folder, killProcesses }) => {
        await killProcesses();
        writeFileSync(folder.exit, '\ncode 4\n0m0.0');
      },
      end: 'failed null lost',
      ran: 0,
    },
    'wrapper and payload are killed together': {
      setUp: ({ killProcesses }) => killProcesses(),
      end: 'failed null lost',
      ran: 0,
    },
  };

test('the next server continues from every step', async (t) => {
  const folder = tempFolder(t);
  const first = await startServer(t);
  const names = Object.keys(steps);
  const jobs = await Promise.all(names.map((_, i) => submit(first, folder, i)));
  await until('all run', () => names.every((_, i) => ran(folder, i) === 1));
  await first.kill();
  for (const [i, name] of names.entries()) {
    const path = launchPath(first.home, jobs[i]!);
    await steps[name]!.setUp({
      folder: new LaunchFolder(path),
      open: () => writeFileSync(join(folder, `gate${i}`), ''),
      killProcesses: async () => {
        const claim = new LaunchFolder(path).readClaim();
        // Kill the wrapper first, because it would still write its record.
        if (claim.state === 'claimed') process.kill(claim.identity.pid, 'SIGKILL');
        const mark = attemptIn(first.home, jobs[i]!);
        await until('the process has exited', async () => {
          const rows = await markHolders(mark);
          for (const row of rows) signalProcess(identityOf(row, bootId()), 'SIGKILL');
          return rows.length === 0;
        });
        writeFileSync(join(folder, `ran${i}`), '');
      },
    });
  }
  const second = await startServer(t, { home: first.home });
  for (const [i, name] of names.entries()) {
    const { end, ran: times } = steps[name]!;
    if (times > 0) await until(`${name}: it runs`, () => ran(folder, i) === times);
    writeFileSync(join(folder, `gate${i}`), '');
    const view = await until(`${name}: it ends`, async () => {
      const now = (await second.api('GET', `/api/jobs/${jobs[i]}`)).json<View>();
      return now.status === 'running' || now.status === 'queued' ? undefined : now;
    });
    assert.equal(`${view.status} ${view.exitCode} ${view.error?.code}`, end, name);
    assert.equal(view.attempts.number, 1, name);
    assert.equal(ran(folder, i), times, `${name}: how often it ran`);
  }
});

test('queued, delayed and partly cancelled jobs survive kill -9', async (t) => {
  const folder = tempFolder(t);
  const first = await startServer(t);
  await first.cli('queue', 'set', 'closed', '--paused');
  const queued = await submit(first, folder, 1, { queue: 'closed' });
  const stubborn = `trap '' TERM; echo x >> ${folder}/ran2; while :; do sleep 0.05; done`;
  const body = { command: stubborn, waitMs: 0 };
  const { id } = (await first.api('POST', '/api/commands', body)).json<View>();
  await until('it ignores signals', () => ran(folder, 2) === 1);
  void first.api('POST', `/api/jobs/${id}/cancel`, { graceMs: 2000 }).catch(() => {});
  const ending = new LaunchFolder(launchPath(first.home, id)).endReason;
  await until('the reason is noted', () => readFileSync(ending, 'utf8').startsWith('cancel'));
  await first.kill();
  const second = await startServer(t, { home: first.home });
  const get = async (job: string) => (await second.api('GET', `/api/jobs/${job}`)).json<View>();
  const over = await until('the job is cancelled', async () => {
    const view = await get(id);
    return view.status === 'cancelled' ? view : undefined;
  });
  assert.equal(over.exitCode, null);
  assert.equal((await get(queued)).status, 'queued');
  writeFileSync(join(folder, 'gate1'), '');
  await second.cli('queue', 'set', 'closed', '--no-paused');
  await until('it ran', async () => (await get(queued)).exitCode === 4);
  assert.equal(ran(folder, 1), 1);
});

async function submit(server: TestServer, folder: string, i: number, more: object = {}) {
  const command = `echo x >> ${folder}/ran${i}; ${awaitFile(`${folder}/gate${i}`)}; exit 4`;
  const answer = await server.api('POST', '/api/commands', { command, waitMs: 0, ...more });
  assert.equal(answer.status, 200, answer.text);
  return answer.json<View>().id;
}

const launchPath = (home: string, id: string): string =>
  join(home, 'command', 'jobs', id.slice(-2), id, '1.1');

/** The attempt's marker in the guard's registry. */
function attemptIn(home: string, id: string): string {
  const entries = new Registry(join(home, 'command')).list();
  const entry = entries.find(({ attemptId }) => attemptId.startsWith(id));
  assert.ok(entry, `${id} is registered`);
  return entry.attemptId;
}

function ran(folder: string, i: number): number {
  try {
    return readFileSync(join(folder, `ran${i}`), 'utf8').length / 2;
  } catch {
    return 0;
  }
}
