// A home starts only with the ledger it last used, and replacing the ledger survives kill -9 at every step.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../src/app.ts';
import { AppError } from '../src/errors.ts';
import { openHome } from '../src/home.ts';
import { joinLedger, openHomeStore } from '../src/home-ledger.ts';
import { Jobs } from '../src/jobs/jobs.ts';
import { jobMigrations } from '../src/jobs/migrations.ts';
import { restoreBackup } from '../src/restore.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { beginCopy, endCopy, readLedger } from '../src/store/ledger.ts';
import { PostgresStore } from '../src/store/postgres/postgres.ts';
import { tempFolder } from './helpers/folder.ts';
import { toyKind } from './helpers/jobs.ts';
import { freshDatabase } from './helpers/postgres.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const database = (home: string) => join(home, 'errand.sqlite');

/** A home after kill -9: queue `early` is in the database file, `late` only in its WAL. */
async function usedHome(t: TestContext): Promise<{ home: string; backup: string }> {
  const live = join(tempFolder(t), 'home');
  const home = join(tempFolder(t), 'home');
  const backup = join(tempFolder(t), 'backup.sqlite');
  mkdirSync(live, { mode: 0o700 });
  const store = await openHomeStore(live, jobMigrations);
  try {
    await addQueue(store, 'early');
    await store.backup(backup);
    const db = new DatabaseSync(database(live));
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    await addQueue(store, 'late');
    cpSync(live, home, { recursive: true });
    db.close();
  } finally {
    await store.close();
  }
  return { home, backup };
}

const addQueue = (store: Awaited<ReturnType<typeof openHomeStore>>, name: string) =>
  store.commit([
    {
      sql: 'INSERT INTO queues (kind, name, concurrency_max, paused, created_at) VALUES (?, ?, NULL, 0, 0)',
      params: ['toy', name],
    },
  ]);

/** The queues that a start of this home finds. */
async function started(home: string): Promise<string[]> {
  const store = await openHomeStore(home, jobMigrations);
  try {
    const rows = await store.read<{ name: string }>('SELECT name FROM queues ORDER BY name');
    return rows.map(({ name }) => name);
  } finally {
    await store.close();
  }
}

const rejected = (home: string, message: RegExp) =>
  assert.rejects(openHomeStore(home, jobMigrations), (error) => {
    assert.ok(error instanceof AppError, String(error));
    assert.equal(error.code, 'unavailable');
    assert.match(error.message, message);
    assert.match(error.hint ?? '', /errand (restore FILE --home|store copy)/);
    return true;
  });

const attacks: Record<string, { attack(home: string, t: TestContext): unknown; message: RegExp }> =
  {
    'a missing database': {
      attack: (home) =>
        ['', '-wal', '-shm'].forEach((part) => rmSync(database(home) + part, { force: true })),
      message: /is missing/,
    },
    'a missing database next to its WAL': {
      attack: (home) => rmSync(database(home)),
      message: /is missing/,
    },
    'an empty file': {
      attack: (home) => {
        truncateSync(database(home));
        rmSync(`${database(home)}-wal`);
      },
      message: /is empty/,
    },
    'an empty database': {
      attack: (home) => {
        rmSync(database(home));
        rmSync(`${database(home)}-wal`);
        const db = new DatabaseSync(database(home));
        db.exec('CREATE TABLE x (a); DROP TABLE x');
        db.close();
      },
      message: /is empty/,
    },
    'the database of another program': {
      attack: (home) => {
        rmSync(database(home));
        rmSync(`${database(home)}-wal`);
        const db = new DatabaseSync(database(home));
        db.exec('CREATE TABLE cookies (id INTEGER)');
        db.close();
      },
      message: /not an Errand database/,
    },
    'the database of another home': {
      attack: async (home, t) => {
        const other = await usedHome(t);
        for (const part of ['', '-wal'])
          copyFileSync(database(other.home) + part, database(home) + part);
      },
      message: /a different ledger/,
    },
    'a removed WAL': {
      attack: (home) => rmSync(`${database(home)}-wal`),
      message: /The last change is missing from .*-wal was removed/,
    },
    'an emptied WAL': {
      attack: (home) => truncateSync(`${database(home)}-wal`),
      message: /The last change is missing/,
    },
  };

for (const [name, { attack, message }] of Object.entries(attacks)) {
  test(`a used home rejects ${name}, changes nothing, and starts after a restore`, async (t) => {
    const { home, backup } = await usedHome(t);
    await attack(home, t);
    const before = existsSync(database(home)) ? readFileSync(database(home)) : undefined;
    for (const _again of [1, 2]) await rejected(home, message);
    const after = existsSync(database(home)) ? readFileSync(database(home)) : undefined;
    assert.deepEqual(after, before);
    await restoreBackup(home, backup);
    assert.deepEqual(await started(home), ['early']);
  });
}

test('an older copy of the same ledger is rejected, and the hint accepts it', async (t) => {
  const { home, backup } = await usedHome(t);
  rmSync(`${database(home)}-wal`);
  copyFileSync(backup, database(home));
  await rejected(home, /changes? (is|are) missing/);
  rmSync(join(home, 'ledger.id'));
  assert.deepEqual(await started(home), ['early']);
});

test('intended changes start: a checkpointed WAL, a moved home, and a home of an older version', async (t) => {
  const { home, backup } = await usedHome(t);
  // Like the sqlite3 shell: opening recovers the WAL, closing removes it.
  new DatabaseSync(database(home)).exec('SELECT 1 FROM queues');
  const db = new DatabaseSync(database(home));
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
  assert.deepEqual(await started(home), ['early', 'late']);
  const moved = join(tempFolder(t), 'moved');
  cpSync(home, moved, { recursive: true });
  assert.deepEqual(await started(moved), ['early', 'late']);
  // A database from a version without an identity.
  const old = new DatabaseSync(backup);
  old.exec(`DROP TABLE ledger; DELETE FROM migrations WHERE id = 'dispatch/2'`);
  old.close();
  await restoreBackup(moved, backup);
  assert.deepEqual(await started(moved), ['early']);
  const fresh = join(tempFolder(t), 'fresh');
  mkdirSync(fresh, { mode: 0o700 });
  copyFileSync(backup, database(fresh));
  assert.deepEqual(await started(fresh), ['early']);
  await restoreBackup(home, backup);
  assert.deepEqual(await started(home), ['early']);
});

test('a WAL without its database is rejected even if no ledger was recorded', async (t) => {
  const { home } = await usedHome(t);
  rmSync(join(home, 'ledger.id'));
  rmSync(database(home));
  await rejected(home, /is missing, but its journal/);
});

const run = (dieAt: number, args: readonly string[]) =>
  spawnSync(
    process.execPath,
    [
      ...['--import', join(import.meta.dirname, 'fixtures/die-at-step.ts')],
      join(import.meta.dirname, 'fixtures/ledger-step.ts'),
      ...args,
    ],
    { env: { ...process.env, DIE_AT: String(dieAt) }, encoding: 'utf8' },
  );

/** The steps to kill at: a random selection, or at most this many. */
function chosen(total: number, count: number): number[] {
  const all = Array.from({ length: total }, (_, i) => i + 1);
  return all.toSorted(() => Math.random() - 0.5).slice(0, deep ? maxDeepSteps : count);
}

const maxDeepSteps = 150;

async function killAtSteps(
  prepare: () => Promise<string[]>,
  count: number,
  check: (args: string[], step: string) => Promise<void>,
): Promise<void> {
  const counted = run(0, await prepare());
  assert.equal(counted.status, 0, counted.stderr);
  const total = Number(counted.stdout.trim().split('\n').at(-1));
  assert.ok(total > 5, `${total} steps`);
  for (const step of chosen(total, count)) {
    const args = await prepare();
    const died = run(step, args);
    assert.equal(died.signal, 'SIGKILL', died.stderr);
    await check(args, `step ${step} of ${total}`);
  }
}

test('a first start that is killed at any step can be repeated', { timeout: 600_000 }, (t) =>
  killAtSteps(
    async () => ['first', join(tempFolder(t), 'home')],
    6,
    async ([, home], step) => {
      openHome(home!).release();
      const queues = await started(home!);
      assert.ok(['', 'first'].includes(queues.join()), step);
      assert.deepEqual(await started(home!), queues);
    },
  ),
);

test(
  'a restore that is killed at any step leaves the old or the new ledger',
  { timeout: 600_000 },
  (t) =>
    killAtSteps(
      async () => {
        const { home, backup } = await usedHome(t);
        return ['restore', home, backup];
      },
      6,
      async ([, home, backup], step) => {
        const queues = await started(home!);
        assert.ok(['early', 'early,late'].includes(queues.join()), `${step}: ${queues.join()}`);
        await restoreBackup(home!, backup!);
        assert.deepEqual(await started(home!), ['early'], step);
      },
    ),
);

test('no server starts on a copy that was killed at any step', { timeout: 900_000 }, async (t) => {
  const { home: source } = await usedHome(t);
  openHome(source).release();
  await (await openHomeStore(source, allMigrations())).close();
  const secret = readFileSync(join(source, 'secret'), 'utf8');
  await killAtSteps(
    async () => ['copy', source, join(tempFolder(t), 'target')],
    4,
    async ([, , target], step) => {
      let store: Awaited<ReturnType<typeof openHomeStore>>;
      try {
        if (!existsSync(target!)) return;
        store = await openHomeStore(target!, allMigrations());
      } catch (error) {
        assert.match((error as Error).message, /copy into .* was interrupted/, step);
        for (const file of ['errand.sqlite', 'errand.sqlite-wal', 'errand.sqlite-shm', 'ledger.id'])
          rmSync(join(target!, file), { force: true });
        assert.equal(run(-1, ['copy', source, target!]).status, 0, step);
        store = await openHomeStore(target!, allMigrations());
        assert.equal((await store.read('SELECT name FROM queues')).length, 2, step);
        await store.close();
        return;
      }
      // Killed before the first row, or after the last step.
      const rows = await store.read('SELECT name FROM queues');
      await store.close();
      assert.ok([0, 2].includes(rows.length), step);
      if (rows.length === 2)
        assert.equal(readFileSync(join(target!, 'secret'), 'utf8'), secret, step);
    },
  );
});

test('a cluster node rejects another database, an emptied one and a partial copy', async (t) => {
  const home = tempFolder(t);
  const open = async () => {
    const store = await PostgresStore.open(await freshDatabase());
    t.after(() => store.close());
    await store.applyMigrations(jobMigrations);
    return store;
  };
  const join = (store: PostgresStore) => joinLedger(home, store, 'postgres://test');
  const own = await open();
  await join(own);
  const jobs = new Jobs(own, systemClock);
  jobs.addKind(toyKind);
  await jobs.submit({ kind: 'toy', owner: 'ada', input: 1 });
  await join(own);
  await assert.rejects(join(await open()), {
    code: 'unavailable',
    message: /a different ledger/,
    hint: /Correct ERRAND_STORE.*pg_restore.*rm /,
  });
  await join(own);
  await beginCopy(own);
  await assert.rejects(join(own), { message: /copy into .* was interrupted/ });
  await endCopy(own, (await readLedger(own))!.ledger);
  await join(own);
  await own.commit(
    ['jobs', 'events'].map((table) => ({ sql: `DELETE FROM ${table}`, params: [] })),
  );
  await join(own);
  await own.commit([{ sql: 'DELETE FROM ledger', params: [] }]);
  await assert.rejects(join(own), { message: /no longer contains its ledger: it was emptied/ });
});
