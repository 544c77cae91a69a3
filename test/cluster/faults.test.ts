// What breaks in a cluster: the database dies while it acknowledges, the network between a node and the database goes
// silent, a migration runs while others work, the disk of the database fills up.
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
import { migratedDatabase, startServer } from '../helpers/postgres.ts';
import { silentProxy } from '../helpers/silent-proxy.ts';
import { until } from '../helpers/until.ts';
import { startDoor } from '../helpers/wire.ts';

const migrations = allMigrations();
const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 20 : 1;
const base = { kind: 'toy', owner: 'ada', input: 1 };

async function open(t: TestContext, url: string): Promise<PostgresStore> {
  const store = await PostgresStore.open(url);
  t.after(() => store.close());
  await store.check(migrations);
  return store;
}

test('kill -9 of PostgreSQL during acknowledgements: what was acknowledged is there afterwards', async (t) => {
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
    // Long enough for many vain connections: none of them may start another chain of its own.
    await until('the outage is noticed', () => refusals.length > 1000);
    await server.start();
    const since = acknowledged.length;
    await until('it goes on by itself', () => acknowledged.length > since + 10, 60_000);
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
  // What was written without an answer is whole, too: its event, its place in the queue.
  const counts = await store.read<{ jobs: number; events: number; waiting: number }>(
    `SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM events) AS events,
       (SELECT count(*) FROM errand_boss.job) AS waiting`,
  );
  assert.deepEqual(counts[0], { jobs: kept.size, events: kept.size, waiting: kept.size });
});

test('a silent network: the node stops what others may start, goes on with the rest, and settles it later', async (t) => {
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
    stopMsMax: 100,
    pollMs: 200,
    shared: true,
  });
  await runner.start();
  t.after(() => runner.stop());
  const { job: again } = await jobs.submit({ ...base, retry: { attemptsMax: 3, lostMax: 3 } });
  const { job: once } = await jobs.submit(base);
  await until('both run', () => kind.runs.size === 2);
  const runOf = (id: string) => kind.runs.get(`${id}.1`)!;
  proxy.freeze(true);
  await until('what may be repeated is stopped', () => runOf(again.id).run.signal.aborted);
  assert.equal(runOf(again.id).run.signal.reason, 'lost');
  assert.equal(runOf(once.id).run.signal.aborted, false);
  runOf(once.id).end({ type: 'completed', result: 'late but true' });
  proxy.freeze(false);
  const ended = await until('the end arrived', async () => {
    const job = await jobs.get(once.id);
    return job.status === 'completed' ? job : undefined;
  });
  assert.equal(ended.result, 'late but true');
  // The other one: its lease ran out, and a late end of the old attempt changes nothing.
  await until('its lease is over', async () => {
    const lost = await store.lost(systemClock.now(), 10);
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

test('a server that says farewell with its first breath is away, and nobody dies of it', async (t) => {
  // Both in one packet: the connection is there and over before anybody could have it.
  const facts = { version: '180004', shown: '18.4', standby: false };
  const reason = 'terminating connection due to administrator command';
  const door = await startDoor(t, '18.4', facts, reason);
  const address = parseAddress(`postgres://ada@127.0.0.1:${door.port}/errand`);
  const pool = await openPool(await loadPg(), address);
  t.after(() => pool.end());
  await withClient(pool, async () => {
    const second = withClient(pool, (client) => client.query('SELECT 1'));
    await assert.rejects(second, /terminat|not queryable|closed/);
  });
});

test('a migration while others work: nobody fails, and the old program goes on', async (t) => {
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

test('the disk of the database is full: a clear answer, nothing half-written, and it goes on when there is room', async (t) => {
  if (process.env.ERRAND_TEST_POSTGRES) return t.skip('the database is on another machine');
  const small = smallDisk(t, 48);
  if (!small) return t.skip('no right to mount a small tmpfs here');
  const url = await migratedDatabase(migrations);
  const name = new URL(url).pathname.slice(1);
  const admin = new Client(new URL('/postgres', url).href);
  await admin.connect();
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
  assert.match(refusal.message, /disk of the database .* is full: nothing was changed/);
  small.free();
  const again = await until('there is room again', () => jobs.submit(big()).catch(() => undefined));
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

/** A file system of so many MiB, half of it taken until it is freed; undefined where nothing may be mounted. */
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
