// Retention in a cluster: every node deletes its own jobs, jobs of a node that is gone are deleted by others, concurrent
// deletes count once, and orphaned files are removed when their node is back.
import assert from 'node:assert/strict';
import { existsSync, globSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { NodeRows } from '../../src/cluster/store.ts';
import { queueKey } from '../../src/jobs/intents.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { Retention } from '../../src/jobs/retention.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { startCluster } from '../helpers/cluster.ts';
import { toyKind } from '../helpers/jobs.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import type { TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const migrations = allMigrations();
const day = 86_400_000;
const limits = { maxAgeMs: 0, maxCount: 1000, maxBytes: 2 ** 40 };

async function open(t: TestContext, url: string) {
  const store = await PostgresStore.open(url);
  t.after(() => store.close());
  await store.check(migrations);
  const jobs = new Jobs(store, store.clock);
  jobs.addKind(toyKind);
  return { store, jobs, rows: new NodeRows(store) };
}

/** Ended jobs that ran on a node. */
async function ended({ jobs }: { jobs: Jobs }, node: string | null, count: number) {
  await jobs.submitMany(
    Array.from({ length: count }, () => ({ kind: 'toy', owner: 'ada', input: 1 })),
  );
  const queues = [{ name: queueKey('toy', 'default') }];
  const holder = node ?? 'worker';
  const claimed = await jobs.claim({ queues, limit: count, holder, node, leaseMs: 30_000 });
  assert.equal(claimed.length, count);
  for (const { id, attemptId } of claimed)
    await jobs.finish({ jobId: id, attemptId }, { type: 'completed' });
  return claimed.map(({ id }) => id);
}

const share = (rows: NodeRows, node: string) => ({
  node,
  goneMs: day,
  steps: (ids: readonly string[]) => rows.orphanedFileSteps(ids, node),
  forget: async () => {},
});

const seen = (rows: NodeRows, id: string, seenAt: number) =>
  rows.register({
    ...{ id, name: id, url: null, labels: [], capacity: {}, running: {}, instance: 'i' },
    ...{ version: '1', startedAt: 0, seenAt },
  });

test('two nodes that delete the same jobs concurrently change the counters once', async (t) => {
  const url = await migratedDatabase(migrations);
  const [a, b] = [await open(t, url), await open(t, url)];
  await ended(a, null, 30);
  await Promise.all(
    [a, b].map(({ jobs, rows, store }, i) =>
      new Retention(jobs, store.clock, limits, share(rows, `node_${i}`)).prune(),
    ),
  );
  const counters = await a.store.counters('queue:toy:default');
  assert.equal(counters.completed ?? 0, 0, JSON.stringify(counters));
  assert.deepEqual(await a.store.read('SELECT id FROM jobs'), []);
});

test('jobs of a node are deleted by that node, until it is gone for a day', async (t) => {
  const a = await open(t, await migratedDatabase(migrations));
  const { rows, store, jobs } = a;
  const now = store.clock.now();
  await seen(rows, 'node_a', now);
  await seen(rows, 'node_b', now - day / 2);
  const onA = await ended(a, 'node_a', 2);
  const onB = await ended(a, 'node_b', 3);
  const retention = new Retention(jobs, store.clock, limits, share(rows, 'node_a'));
  assert.equal(await retention.prune(), onA.length, 'b may come back');
  // A deliberate stop is no exception: an upgrade takes a minute, and the files are available afterwards.
  await store.commit([
    { sql: `UPDATE nodes SET stopped_at = ? WHERE id = 'node_b'`, params: [now] },
  ]);
  assert.equal(await retention.prune(), 0);
  await seen(rows, 'node_b', now - 2 * day);
  assert.equal(await retention.prune(), onB.length);
  assert.deepEqual((await rows.listOrphaned('node_b', 10)).toSorted(), onB.toSorted());
  assert.deepEqual(await rows.listOrphaned('node_a', 10), []);
});

test('jobs of a killed node are deleted; its files go when it is back, or its row goes', async (t) => {
  const cluster = await startCluster(t, 2);
  const [a, b] = cluster.nodes as [TestServer, TestServer];
  const list = async (at: TestServer) =>
    (await at.api('GET', '/api/nodes')).json<{
      nodes: { id: string; here: boolean; seenAt: string }[];
    }>().nodes;
  /** Silent for longer than the setting below, so that the next start treats it as gone. */
  const silent = (at: TestServer, id: string) =>
    until(`${id} is silent`, async () => {
      const row = (await list(at)).find((one) => one.id === id)!;
      return Date.now() - Date.parse(row.seenAt) > 1500;
    });
  const idB = (await list(b)).find(({ here }) => here)!.id;
  const made = await a.api('POST', '/api/commands', {
    ...{ command: 'echo kept', cwd: '/', waitMs: 20_000, labels: [`node=${idB}`] },
  });
  const job = made.json<{ id: string; status: string }>();
  assert.equal(job.status, 'completed', made.text);
  const [folder] = globSync(join(b.home, '**', job.id));
  assert.ok(folder, 'it has a folder on b');
  await b.kill();
  await silent(a, idB);
  await a.stop();
  const config = { retention: { maxAgeMs: 0 }, cluster: { goneMs: 1000 } };
  writeFileSync(join(a.home, 'config.json'), JSON.stringify(config), { mode: 0o600 });
  const again = await cluster.add({ home: a.home });
  await until('the job is deleted', async () => {
    const result = await again.api('GET', `/api/jobs/${job.id}`);
    return result.status === 404;
  });
  assert.ok(existsSync(folder), 'only b can remove it');
  const back = await cluster.add({ home: b.home });
  await until('b has removed it', () => !existsSync(folder));
  // Permanently gone, with nothing left: the next sweep removes its row.
  await back.kill();
  await silent(again, idB);
  await again.stop();
  const last = await cluster.add({ home: a.home });
  await until('the row is gone', async () => (await list(last)).every(({ id }) => id !== idB));
});
