// Requirements for a store that several servers share: rejected starts, event order across writers, exact limits, wake-ups
// between nodes, one clock, and a copy that is compared row by row.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client } from 'pg';
import { allMigrations, searchIndexes } from '../../src/app.ts';
import { queueKey } from '../../src/jobs/intents.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { systemClock, type Clock } from '../../src/runtime/clock.ts';
import { copyStore } from '../../src/store/copy.ts';
import { dispatchedEntries } from '../../src/store/copy-dispatch.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { numberPlaceholders } from '../../src/store/postgres/sql.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { tempFolder } from '../helpers/folder.ts';
import { toyKind } from '../helpers/jobs.ts';
import { freePort } from '../helpers/port.ts';
import { freshDatabase, migratedDatabase } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

const migrations = allMigrations();
const base = { kind: 'toy', owner: 'ada', input: { n: 1 } };

async function open(t: TestContext, url: string, clock?: Clock): Promise<PostgresStore> {
  const store = await PostgresStore.open(url, clock);
  t.after(() => store.close());
  await store.check(migrations);
  return store;
}

function jobsOn(store: PostgresStore | SqliteStore, clock: Clock = systemClock): Jobs {
  const jobs = new Jobs(store, clock);
  jobs.addKind(toyKind);
  return jobs;
}

const claim = (jobs: Jobs, limit: number, max?: number) =>
  jobs.claim({
    queues: [{ name: queueKey('toy', 'default'), ...(max === undefined ? {} : { limit: max }) }],
    limit,
    holder: 'node_a',
    node: 'node_a',
    leaseMs: 30_000,
  });

test('placeholders are numbered outside quotes only', () => {
  assert.equal(
    numberPlaceholders(`a = ? AND b = '?' AND "c?" = ? -- ?`),
    `a = $1 AND b = '?' AND "c?" = $2 -- ?`,
  );
});

test('a store that cannot work is rejected with a reason and a hint', async (t) => {
  const rejected = async (url: string, pattern: RegExp, run = PostgresStore.open(url)) => {
    const error = await run.then(
      async (store) => {
        await store.close();
        assert.fail(`${url} was accepted`);
      },
      (reason: unknown) => reason as { message: string; hint?: string; code: string },
    );
    assert.match(error.message, pattern);
    assert.ok(error.hint, error.message);
  };
  await rejected(`postgres://x@127.0.0.1:${await freePort()}/x`, /Cannot reach the database/);
  await rejected('postgres://x@127.0.0.1/x?schema=Bad-Name', /is not a valid schema name/);
  const url = await freshDatabase();
  const nowhere = new URL(url);
  nowhere.pathname = '/no_such_database';
  await rejected(nowhere.href, /Database \S+ does not exist/);
  const empty = await PostgresStore.open(url);
  t.after(() => empty.close());
  await rejected(url, /contains no Errand tables yet/, empty.check(migrations) as never);
  assert.deepEqual((await empty.applyMigrations(migrations)).includes('jobs/1'), true);
  assert.deepEqual(await empty.applyMigrations(migrations), []);
  await empty.check(migrations);
  await empty.join({ name: 'blue', key: 'one key for all' });
  await empty.join({ name: 'blue', key: 'one key for all' });
  await rejected(url, /belongs to cluster blue/, empty.join({ name: 'green', key: 'x' }) as never);
  await rejected(url, /different cluster key/, empty.join({ name: 'blue', key: 'x' }) as never);
  await rejected(
    url,
    /requires a cluster key/,
    empty.join({ name: 'blue', key: undefined }) as never,
  );
  await empty.commit([
    { sql: `INSERT INTO migrations (id, applied_at) VALUES ('jobs/99', 0)`, expect: 1 },
  ]);
  await rejected(url, /newer version of Errand/, empty.check(migrations) as never);
  // A user without privileges, and one with a wrong password where the server requires one.
  await empty.read('DROP ROLE IF EXISTS visitor');
  await empty.read('CREATE ROLE visitor LOGIN');
  const visitor = new URL(await freshDatabase());
  visitor.username = 'visitor';
  const unprivileged = await PostgresStore.open(visitor.href);
  t.after(() => unprivileged.close());
  await rejected(
    visitor.href,
    /lacks privileges/,
    unprivileged.applyMigrations(migrations) as never,
  );
});

test('of two concurrent migrations one applies and the other has nothing to do', async (t) => {
  const url = await freshDatabase();
  const [a, b] = await Promise.all([PostgresStore.open(url), PostgresStore.open(url)]);
  t.after(() => Promise.all([a.close(), b.close()]));
  const [first, second] = await Promise.all([
    a.applyMigrations(migrations),
    b.applyMigrations(migrations),
  ]);
  assert.equal(Math.max(first.length, second.length) > 5, true);
  assert.equal(Math.min(first.length, second.length), 0);
});

test('a reader never passes an uncommitted event', async (t) => {
  const url = await migratedDatabase(migrations);
  const store = await open(t, url);
  const jobs = jobsOn(store);
  await jobs.submit(base);
  const seen = await store.eventCursor();
  // A slow writer: it has its cursor, others commit after it, and only then it commits.
  const slow = new Client(`${url}?options=-c%20search_path%3Derrand`);
  await slow.connect();
  t.after(() => slow.end());
  await slow.query('BEGIN');
  await slow.query('SELECT pg_current_xact_id()');
  await slow.query(
    `INSERT INTO events (job_id, n, type, at, data) VALUES ('job_slow', 1, 'slow', 0, '{}')`,
  );
  await jobs.submit(base);
  assert.deepEqual(await store.events(seen, 10), []);
  assert.equal(await store.eventCursor(), seen);
  await slow.query('COMMIT');
  const events = await until('both events are readable', async () => {
    const page = await store.events(seen, 10);
    return page.length === 2 ? page : undefined;
  });
  assert.deepEqual(
    events.map(({ type }) => type),
    ['slow', 'submitted'],
  );
  // A rolled back writer leaves a gap, which blocks readers only briefly.
  await slow.query('BEGIN');
  await slow.query('SELECT pg_current_xact_id()');
  await slow.query(
    `INSERT INTO events (job_id, n, type, at, data) VALUES ('job_slow', 2, 'never', 0, '{}')`,
  );
  await jobs.submit(base);
  const after = events.at(-1)!.cursor;
  assert.deepEqual(await store.events(after, 10), []);
  await slow.query('ROLLBACK');
  await until('the gap is passed', async () => (await store.events(after, 10)).length === 1);
});

test('a queue limit is exact across nodes that claim concurrently; commits wake the other node', async (t) => {
  const url = await migratedDatabase(migrations);
  const [a, b] = [await open(t, url), await open(t, url)];
  const woken: string[] = [];
  b.onReady((queue) => woken.push(queue));
  const [onA, onB] = [jobsOn(a), jobsOn(b)];
  await onA.submitMany(Array.from({ length: 40 }, () => base));
  await until('b is notified', () => woken.includes(queueKey('toy', 'default')));
  const claims = await Promise.all(
    Array.from({ length: 12 }, (_, i) => claim(i % 2 ? onA : onB, 3, 5)),
  );
  assert.equal(claims.flat().length, 5);
  assert.deepEqual(await a.counters('queue:toy:default'), { queued: 35, running: 5 });
  await Promise.all([a.promote(0), b.promote(0), a.promote(0)]);
  assert.deepEqual(await b.counters('queue:toy:default'), { queued: 35, running: 5 });
});

test('a node that finds an entry locked by another looks again soon; one that skipped it does not', async (t) => {
  const url = await migratedDatabase(migrations);
  const store = await open(t, url);
  const jobs = jobsOn(store);
  const queue = queueKey('toy', 'default');
  await jobs.submit(base);
  const woken: string[] = [];
  store.onReady((name) => woken.push(name));
  const other = new Client(url);
  await other.connect();
  t.after(() => other.end());
  // Like a node that examines a job it cannot run: locked until its transaction ends, then put back.
  await other.query('BEGIN');
  await other.query('SELECT 1 FROM errand_boss.job FOR UPDATE');
  assert.deepEqual(await claim(jobs, 1), []);
  await until('it looks again', () => woken.includes(queue));
  await other.query('ROLLBACK');
  const refuse = { queues: [{ name: queue }], limit: 1, holder: 'b', node: 'b', leaseMs: 30_000 };
  await jobs.claim({ ...refuse, accept: () => false });
  const before = woken.length;
  await jobs.claim({ ...refuse, accept: () => false });
  await jobs.submit({ ...base, queue: 'second' });
  await until('the next entry is announced', () => woken.includes(queueKey('toy', 'second')));
  assert.equal(woken.slice(before).includes(queue), false);
  assert.equal((await claim(jobs, 1)).length, 1);
});

test('a node whose clock is minutes off uses the database time', async (t) => {
  const url = await migratedDatabase(migrations);
  const skewMs = 7 * 60_000;
  const early: Clock = { ...systemClock, now: () => systemClock.now() + skewMs };
  const [a, b] = [await open(t, url), await open(t, url, early)];
  const [onA, onB] = [jobsOn(a, a.clock), jobsOn(b, b.clock)];
  assert.ok(Math.abs(a.clock.now() - b.clock.now()) < 5000);
  await onA.submit(base);
  await claim(onA, 1);
  assert.deepEqual(await b.lostAttempts(b.clock.now(), 10), []);
  await onB.submit({ ...base, runAt: b.clock.now() + 60_000 });
  assert.deepEqual((await a.promote(a.clock.now())).queues, []);
});

test('callers wait when all pool connections are in use', async (t) => {
  const url = await migratedDatabase(migrations);
  const store = await open(t, `${url}?maxPool=3`);
  const jobs = jobsOn(store);
  const work = Array.from({ length: 150 }, async (_, i) => {
    const { job } = await jobs.submit({ ...base, input: i });
    assert.equal((await jobs.get(job.id)).input, i);
  });
  await Promise.all(work);
  assert.ok(store.poolCounts().total <= 3);
});

test('store copy moves a home into a cluster and back, with waiting and running jobs', async (t) => {
  const open2 = async (name: string) => {
    const store = new SqliteStore(join(tempFolder(t), `${name}.sqlite`));
    t.after(() => store.close());
    await store.migrate(migrations);
    return store;
  };
  const home = await open2('home');
  const jobs = jobsOn(home);
  const { job: first } = await jobs.submit({ ...base, name: 'ünï \u2028 name', priority: 5 });
  await jobs.submitMany(
    Array.from({ length: 30 }, (_, i) => ({ ...base, input: { i }, priority: i % 3 })),
  );
  await jobs.submit({ ...base, runAt: Date.now() + 3_600_000 });
  await jobs.submit({ ...base, after: [first.id] });
  const [running, ended] = await claim(jobs, 2);
  await jobs.finish(
    { jobId: ended!.id, attemptId: ended!.attemptId },
    { type: 'completed', result: { big: 'x'.repeat(5000) } },
  );
  const cluster = await open(t, await migratedDatabase(migrations));
  const there = await copyStore(home, cluster, searchIndexes());
  assert.equal(there.tables.find(({ name }) => name === 'jobs')!.rows, 33);
  assert.equal(there.held, 1);
  await assert.rejects(copyStore(home, cluster, searchIndexes()), { code: 'conflict' });
  const back = await open2('back');
  assert.deepEqual(await copyStore(cluster, back, searchIndexes()), there);
  assert.equal((await dispatchedEntries(back)).length, there.waiting + there.held);
  // The copy works: the running attempt ends, the next one is claimed in the same order, and sequences continue.
  const moved = jobsOn(cluster, cluster.clock);
  const end = await moved.finish(
    { jobId: running!.id, attemptId: running!.attemptId },
    { type: 'completed' },
  );
  assert.equal(end.applied, true);
  const [next] = await claim(jobs, 1);
  assert.equal((await claim(moved, 1))[0]!.id, next!.id);
  await moved.submit(base);
});
