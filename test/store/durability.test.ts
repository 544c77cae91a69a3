// Acknowledged jobs survive: every commit is synced, and the writer is killed with kill -9 while it works.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { tempFolder } from '../helpers/folder.ts';

const program = join(import.meta.dirname, '../fixtures/submitter.ts');
const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 50 : 3;
const minAcknowledged = 200;
/** Concurrent submits in the fixture: the maximum that one commit can contain. */
const concurrentSubmits = 16;

async function openStore(path: string): Promise<SqliteStore> {
  const store = new SqliteStore(path);
  await store.migrate(jobMigrations);
  return store;
}

test('every commit is synced to disk: WAL with synchronous = FULL', async (t) => {
  const store = await openStore(join(tempFolder(t), 'errand.sqlite'));
  t.after(() => store.close());
  assert.deepEqual(await store.read('PRAGMA synchronous'), [{ synchronous: 2 }]);
  assert.deepEqual(await store.read('PRAGMA journal_mode'), [{ journal_mode: 'wal' }]);
});

test('no acknowledged job is lost when its writer is killed', async (t) => {
  const path = join(tempFolder(t), 'errand.sqlite');
  await (await openStore(path)).close();
  const acknowledged = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    for (const id of await submitUntilKilled(path)) acknowledged.add(id);
    const store = await openStore(path);
    assert.deepEqual(await store.read('PRAGMA quick_check'), [{ quick_check: 'ok' }]);
    const jobs = await idsOf(store, 'SELECT id FROM jobs');
    const lost = [...acknowledged].filter((id) => !jobs.has(id));
    assert.deepEqual(lost, [], `round ${round}: ${lost.length} of ${acknowledged.size} lost`);
    // A job is complete or absent: its event, dispatch entry and counter belong to it.
    assert.deepEqual(await idsOf(store, 'SELECT job_id AS id FROM events WHERE n = 1'), jobs);
    assert.deepEqual(await idsOf(store, 'SELECT job_id AS id FROM dispatch'), jobs);
    assert.deepEqual(await store.counters('queue:toy:default'), { queued: jobs.size });
    await store.close();
  }
});

test('no job is acknowledged before its commit group is synced', async (t) => {
  const probe = spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']);
  if (probe.status !== 0)
    return t.skip('strace is not installed or not permitted, so syncs cannot be observed');
  const folder = tempFolder(t);
  const path = join(folder, 'errand.sqlite');
  await (await openStore(path)).close();
  const trace = join(folder, 'trace');
  const watched = ['-f', '-qq', '-s', '4', '-e', 'trace=fsync,fdatasync,write', '-o', trace];
  const child = spawn('strace', [...watched, process.execPath, program, path], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  let printed = 0;
  for await (const _id of createInterface({ input: child.stdout })) if (++printed === 100) break;
  // Closing the pipe ends the writer.
  child.stdout.destroy();
  await exited;
  let syncs = 0;
  let ids = 0;
  for (const line of readFileSync(trace, 'utf8').split('\n')) {
    if (/ f(data)?sync\(\d+\) += 0/.test(line)) syncs += 1;
    if (/ write\(1, "job_"/.test(line)) ids += 1;
    assert.ok(ids <= syncs * concurrentSubmits, `${ids} acknowledged after ${syncs} syncs`);
  }
  assert.ok(ids >= 100);
});

async function submitUntilKilled(path: string): Promise<string[]> {
  const child = spawn(process.execPath, [program, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const ids: string[] = [];
  for await (const id of createInterface({ input: child.stdout })) {
    // The kill may truncate the last line.
    if (id.length === 20) ids.push(id);
    if (ids.length === minAcknowledged) child.kill('SIGKILL');
  }
  const [, signal] = (await exited) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL', 'the writer was not killed');
  return ids;
}

async function idsOf(store: SqliteStore, sql: string): Promise<Set<string>> {
  return new Set((await store.read<{ id: string }>(sql)).map(({ id }) => id));
}
