// A restore keeps the previous database completely, including its WAL.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { jobMigrations } from '../src/jobs/migrations.ts';
import { restoreBackup } from '../src/restore.ts';
import { SqliteStore } from '../src/store/sqlite/sqlite.ts';
import { tempFolder } from './helpers/folder.ts';

test('the previous database of a killed server is kept next to the restored one', async (t) => {
  const { home, database, backup } = await killedHome(t);
  assert.ok(existsSync(`${database}-wal`));
  for (const time of ['first', 'again']) {
    await restoreBackup(home, backup);
    assert.deepEqual(queuesIn(database), ['early'], time);
    assert.ok(!existsSync(`${database}-wal`), 'the WAL of another database must not be applied');
    const before = time === 'first' ? ['early', 'late'] : ['early'];
    assert.deepEqual(queuesIn(`${database}.before-restore`), before, time);
  }
});

test('a damaged database is replaced and kept unchanged', async (t) => {
  const { home, database, backup } = await killedHome(t);
  writeFileSync(database, 'no database');
  await restoreBackup(home, backup);
  assert.deepEqual(queuesIn(database), ['early']);
  assert.ok(existsSync(`${database}.before-restore-wal`));
});

/** A home after kill -9, and a backup from before the last change. */
async function killedHome(t: TestContext) {
  const live = join(tempFolder(t), 'live.sqlite');
  const store = new SqliteStore(live);
  t.after(() => store.close());
  await store.migrate(jobMigrations);
  const backup = join(tempFolder(t), 'backup.sqlite');
  await add(store, 'early');
  await store.backup(backup);
  await add(store, 'late');
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  const database = join(home, 'errand.sqlite');
  for (const part of ['', '-wal']) copyFileSync(live + part, database + part);
  return { home, database, backup };
}

const add = (store: SqliteStore, name: string) =>
  store.commit([
    {
      sql: 'INSERT INTO queues (kind, name, concurrency_max, paused, created_at) VALUES (?, ?, NULL, 0, 0)',
      params: ['toy', name],
    },
  ]);

function queuesIn(path: string): unknown[] {
  const db = new DatabaseSync(path);
  try {
    return db
      .prepare('SELECT name FROM queues ORDER BY name')
      .all()
      .map(({ name }) => name);
  } finally {
    db.close();
  }
}
