// Faults in a cluster: the database dies during commits, the network between a node and the database goes silent, a
// migration runs while nodes work, and the database disk fills up.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client } from 'pg';
import { allMigrations } from '../../src/app.ts';
import { AppError } from '../../src/errors.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { Runner } from '../../src/jobs/runner.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { withClient } from '../../src/store/postgres/committer.ts';
import { loadPg, openPool, parseAddress } from '../../src/store/postgres/open.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { manualKind, toyKind } from '../helpers/jobs.ts';
import { startServer } from '../helpers/postgres-server.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import { silentProxy } from '../helpers/silent-proxy.ts';
import { until } from '../helpers/until.ts';
import { startFakePostgres } from '../helpers/fake-postgres.ts';

const migrations = allMigrations();
const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 20 : 1;
const base = { kind: 'toy', owner: 'ada', input: 1 };

async function open(t: TestContext, url: string): Promise<PostgresStore> {
  const store = await PostgresStore.open(url);
  t.after(() => store.close());
  await store.check(migrations);
  return store;
}

test('acknowledged jobs survive kill -9 of PostgreSQL', async (t) => {
  const server = await startServer({ fsync: 'on' });
  const store = await PostgresStore.open(server.url);
  let stop = false;
  t.after(async () => {
    stop = true;
    await store.close();
    await server.kill();
  });
  await store.migrate(migrations);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(toyKind);
  const acknowledged: string[] = [];
  const refusals: unknown[] = [];
  const submitters = Array.from({ length: 8 }, async () => {
    while (!stop) {
      try {
        acknowledged.push((await jobs.submit(base)).job.id);
      } catch (error) {
        refusals.push(error);
        await systemClock.sleep(20);
      }
    }
  });
  for (let round = 0; round < rounds; round++) {
    const before = acknowledged.length;
    await until('some are acknowledged', () => acknowledged.length > before + 40, 60_000);
    await server.kill();
    // Long enough for many failed connections: none of them may start a second reconnect loop.
    await until('the outage is noticed', () => refusals.length > 1000);
    await server.start();
    const since = acknowledged.length;
    await until('submits succeed again', () => acknowledged.length > since + 10, 60_000);
  }
  stop = true;
  await Promise.all(submitters);
  for (const error of refusals)
    assert.ok(error instanceof AppError && error.code === 'unavailable', String(error));
  const rows = await store.read<{ id: string }>('SELECT id FROM jobs');
  const kept = new Set(rows.map(({ id }) => id));
  assert.deepEqual(
    acknowledged.filter((id) => !kept.has(id)),
    [],
  );
  const connections = await store.read<{ n: number }>(
    `SELECT count(*) AS n FROM pg_stat_activity WHERE backend_type = 'client backend'`,
  );
  assert.ok(connections[0]!.n <= 12, `${connections[0]!.n} connections after the outage`);
  // Unacknowledged writes are also complete: with their event and dispatch entry.
  const counts = await store.read<{ jobs: number; events: number; waiting: number }>(
    `SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM events) AS events,
       (SELECT count(*) FROM errand_boss.job) AS waiting`,
  );
  assert.deepEqual(counts[0], { jobs: kept.size, events: kept.size, waiting: kept.size });
});

test('on a silent network a node stops what others may retry, continues the rest, and settles it later', async (t) => {
  const url = new URL(await migratedDatabase(migrations));
  const proxy = await silentProxy(t, Number(url.port));
  url.port = String(proxy.port);
  const store = await open(t, url.href);
  const kind = manualKind();
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(kind);
  const runner = new Runner({
    jobs,
    clock: systemClock,
    log: silentLog,
    node: 'node_a',
    leaseMs: 1500,
    maxStopMs: 100,
    pollMs: 200,
    shared: true,
  });
  await runner.start();
  t.after(() => runner.stop());
  const { job: again } = await jobs.submit({ ...base, retry: { maxAttempts: 3, maxLost: 3 } });
  const { job: once } = await jobs.submit(base);
  await until('both run', () => kind.runs.size === 2);
  const runOf = (id: string) => kind.runs.get(`${id}.1`)!;
  proxy.freeze(true);
  await until('the job that may be retried is stopped', () => runOf(again.id).run.signal.aborted);
  assert.equal(runOf(again.id).run.signal.reason, 'lost');
  assert.equal(runOf(once.id).run.signal.aborted, false);
  runOf(once.id).end({ type: 'completed', result: 'late but true' });
  proxy.freeze(false);
  const ended = await until('the result arrived', async () => {
    const job = await jobs.get(once.id);
    return job.status === 'completed' ? job : undefined;
  });
  assert.equal(ended.result, 'late but true');
  // The other attempt: its lease expired, and its late result changes nothing.
  await until('its lease has expired', async () => {
    const lost = await store.lostAttempts(systemClock.now(), 10);
    return lost.some(({ jobId }) => jobId === again.id);
  });
  await jobs.lose({ jobId: again.id, attemptId: `${again.id}.1` });
  const late = await jobs.finish(
    { jobId: again.id, attemptId: `${again.id}.1` },
    { type: 'completed' },
  );
  assert.equal(late.applied, false);
  assert.equal((await jobs.get(again.id)).attempt, 2);
});

test('a server that closes the connection right after the greeting counts as unavailable', async (t) => {
  // Both arrive in one packet: the connection ends before anybody could use it.
  const facts = { version: '180004', shown: '18.4', standby: false };
  const reason = 'terminating connection due to administrator command';
  const fake = await startFakePostgres(t, '18.4', facts, reason);
  const address = parseAddress(`postgres://ada@127.0.0.1:${fake.port}/errand`);
  const pool = await openPool(await loadPg(), address);
  t.after(() => pool.end());
  await withClient(pool, async () => {
    const second = withClient(pool, (client) => client.query('SELECT 1'));
    await assert.rejects(second, /terminat|not queryable|closed/);
  });
});

test('a migration while nodes work causes no failures, and the old version keeps working', async (t) => {
  const url = await migratedDatabase(migrations);
  const store = await open(t, url);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(toyKind);
  let stop = false;
  let submitted = 0;
  const work = Array.from({ length: 4 }, async () => {
    while (!stop) {
      await jobs.submit(base);
      submitted += 1;
    }
  });
  await until('they work', () => submitted > 20);
  const newer = await PostgresStore.open(url);
  t.after(() => newer.close());
  const next = {
    id: 'later/1',
    statements: () => [
      'ALTER TABLE jobs ADD COLUMN later TEXT',
      'CREATE TABLE later (id TEXT PRIMARY KEY)',
    ],
  };
  assert.deepEqual(await newer.applyMigrations([...migrations, next]), ['later/1']);
  const since = submitted;
  await until('they still work', () => submitted > since + 20);
  stop = true;
  await Promise.all(work);
  await store.check(migrations);
});

test('a full database disk causes a clear error, no partial writes, and recovery', async (t) => {
  const small = smallDisk(t, 48);
  if (!small) return t.skip('not permitted to mount a small tmpfs here');
  // A separate server, because a tablespace belongs to the whole server.
  const server = await startServer();
  t.after(() => server.kill());
  const admin = new Client(server.url);
  await admin.connect();
  const name = 'crowded';
  await admin.query(`CREATE DATABASE ${name}`);
  const url = new URL(`/${name}`, server.url).href;
  const migrating = await PostgresStore.open(url);
  await migrating.applyMigrations(migrations);
  await migrating.close();
  await admin.query(`CREATE TABLESPACE small LOCATION '${small.folder}'`);
  await admin.query(`ALTER DATABASE ${name} SET TABLESPACE small`);
  const store = await open(t, url);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(toyKind);
  const big = () => ({ ...base, input: randomBytes(150_000).toString('base64') });
  const acknowledged: string[] = [];
  let refusal: unknown;
  for (let i = 0; i < 1000 && !refusal; i++) {
    try {
      acknowledged.push((await jobs.submit(big())).job.id);
    } catch (error) {
      refusal = error;
    }
  }
  assert.ok(refusal instanceof AppError && refusal.code === 'unavailable', String(refusal));
  assert.match(refusal.message, /disk of the database .* is full\. Nothing was changed/);
  small.free();
  const again = await until('disk space is available again', () =>
    jobs.submit(big()).catch(() => undefined),
  );
  acknowledged.push(again.job.id);
  const rows = await store.read<{ id: string }>('SELECT id FROM jobs');
  assert.deepEqual(rows.map(({ id }) => id).toSorted(), acknowledged.toSorted());
  const [counts] = await store.read(
    'SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM errand_boss.job) AS waiting',
  );
  assert.deepEqual(counts, { events: acknowledged.length, waiting: acknowledged.length });
  await store.close();
  await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
  await admin.query('DROP TABLESPACE small');
  await admin.end();
});

/** A file system of this many MiB, half of it filled until freed; undefined if mounting is not permitted. */
function smallDisk(t: TestContext, mebibytes: number) {
  const root = mkdtempSync(join(tmpdir(), 'errand-small-'));
  let mounted = false;
  t.after(() => {
    if (mounted) execFileSync('umount', ['-l', root]);
    rmSync(root, { recursive: true, force: true });
  });
  try {
    const size = `size=${mebibytes}m`;
    execFileSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', root], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  mounted = true;
  const folder = join(root, 'data');
  mkdirSync(folder, { mode: 0o700 });
  chownSync(folder, 65_534, 65_534);
  chmodSync(root, 0o755);
  const ballast = join(root, 'ballast');
  writeFileSync(ballast, Buffer.alloc((mebibytes / 4) * 2 ** 20));
  return { folder, free: () => rmSync(ballast) };
}
