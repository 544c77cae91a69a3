// A job that this process submitted starts without a read, but changes by others still count. The global event cursor
// only grows, even when jobs are deleted.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { queueKey } from '../../src/jobs/intents.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { Retention } from '../../src/jobs/retention.ts';
import { ManualClock } from '../../src/runtime/clock.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { tempFolder } from '../helpers/folder.ts';
import { createCore, type Core } from '../helpers/jobs.ts';
import { stores } from '../helpers/stores.ts';

const base = { kind: 'toy', owner: 'ada', input: { n: 1 } };
const maxKept = { maxAgeMs: 1, maxCount: 1000, maxBytes: 1e12 };

const claim = ({ jobs }: { jobs: Jobs }, limit = 1) =>
  jobs.claim({
    queues: [{ name: queueKey('toy', 'default') }],
    limit,
    holder: 'node_a',
    node: 'node_a',
    leaseMs: 30_000,
  });

async function endAll(core: Core, count: number): Promise<void> {
  for (const { id, attemptId } of await claim(core, count))
    await core.jobs.finish({ jobId: id, attemptId }, { type: 'completed' });
}

for (const factory of stores) {
  describe(`recent jobs on ${factory.name}`, () => {
    test('a start sees a change made after the submission', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      await core.jobs.setPinned(job.id, true);
      const [started] = await claim(core);
      assert.equal(started!.pinned, true);
      assert.deepEqual(await core.jobs.get(job.id), started);
    });

    test('a started job equals what was written, not the object of the submitter', async (t) => {
      const core = await createCore(t, { factory });
      const input = { n: 1, list: ['a'] };
      const { job } = await core.jobs.submit({ ...base, input, tags: ['x'], name: 'one' });
      input.list.push('changed later');
      const [started] = await claim(core);
      assert.deepEqual(started!.input, { n: 1, list: ['a'] });
      assert.deepEqual(await core.jobs.get(job.id), started);
    });

    test('claims of one tick see what that tick submitted, by priority', async (t) => {
      const core = await createCore(t, { factory });
      const early: string[] = [];
      for (let i = 0; i < 4; i++) early.push((await core.jobs.submit(base)).job.id);
      const [first, second] = await Promise.all([claim(core), claim(core)]);
      assert.deepEqual(
        new Set([first[0]!.id, second[0]!.id]),
        new Set(early.slice(0, 2)),
        'each claim gets its own job',
      );
      const urgent = (await core.jobs.submit({ ...base, priority: 9 })).job.id;
      const third = await claim(core, 2);
      assert.deepEqual(new Set(third.map(({ id }) => id)), new Set([urgent, early[2]]));
    });

    test('a retried job that never started runs as its second attempt', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      await core.jobs.cancel(job.id, 'ada');
      await core.jobs.retry(job.id, 'ada');
      const [started] = await claim(core);
      assert.equal(started!.attempt, 2);
    });

    test('the end of a job releases all jobs that depend on it', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      await core.jobs.submitMany(Array.from({ length: 70 }, () => ({ ...base, after: [job.id] })));
      await endAll(core, 1);
      assert.equal((await claim(core, 100)).length, 70);
    });

    test('the cursor keeps growing after all jobs were deleted', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      await core.jobs.submitMany([base, base]);
      await endAll(core, 2);
      const before = await core.store.eventCursor();
      await clock.advance(1000);
      assert.equal(await new Retention(core.jobs, clock, maxKept).prune(), 2);
      const after = await core.store.eventCursor();
      assert.equal(after, before + 2, 'each deletion is an event');
      const { job } = await core.jobs.submit(base);
      const events = await core.store.events(after, 10);
      assert.deepEqual(
        events.map(({ jobId, n }) => [jobId, n]),
        [[job.id, 1]],
      );
      await endAll(core, 1);
      await clock.advance(1000);
      assert.equal(await new Retention(core.jobs, clock, maxKept).prune(), 1);
      const left = await core.store.read("SELECT job_id FROM events WHERE type <> 'deleted'");
      assert.deepEqual(
        left.map(({ job_id: id }) => id),
        [''],
        'one placeholder in total, not one per run',
      );
    });
  });
}

test('an older database keeps its events and its cursor', async (t) => {
  const path = join(tempFolder(t), 'errand.sqlite');
  const old = new SqliteStore(path);
  await old.migrate(jobMigrations.slice(0, 2));
  await old.commit([
    {
      sql: `INSERT INTO events (job_id, n, type, at, data) VALUES ('job_a', 1, 'submitted', 5, '{}')`,
    },
    {
      sql: `INSERT INTO events (job_id, n, type, at, data) VALUES ('job_b', 1, 'submitted', 6, '{}')`,
    },
    { sql: `DELETE FROM events WHERE job_id = 'job_b'` },
  ]);
  await old.close();
  const store = new SqliteStore(path);
  t.after(() => store.close());
  await store.migrate(jobMigrations);
  assert.equal(await store.eventCursor(), 2);
  assert.deepEqual(
    (await store.events(0, 10)).map(({ cursor, jobId }) => [cursor, jobId]),
    [
      [1, 'job_a'],
      [2, ''],
    ],
  );
});
