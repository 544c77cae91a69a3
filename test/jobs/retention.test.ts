// Retention deletes ended jobs by age, count and bytes, oldest first. Pinned jobs, unfinished jobs and the jobs they need
// stay.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { queueKey } from '../../src/jobs/intents.ts';
import { Retention, type RetentionLimits } from '../../src/jobs/retention.ts';
import { ManualClock } from '../../src/runtime/clock.ts';
import { startApp } from '../helpers/app.ts';
import { createCore, toyKind, type Core } from '../helpers/jobs.ts';
import { stores } from '../helpers/stores.ts';
import { until } from '../helpers/until.ts';

const never: RetentionLimits = { maxAgeMs: 1e15, maxCount: 1e9, maxBytes: 1e15 };
const base = { kind: 'toy', owner: 'ada', input: 1 };

async function ended({ jobs }: Core, count: number, more: object = {}): Promise<string[]> {
  await jobs.submitMany(Array.from({ length: count }, () => ({ ...base, ...more })));
  const queues = [{ name: queueKey('toy', 'default') }];
  const claimed = await jobs.claim({
    queues,
    limit: count,
    holder: 'h',
    node: null,
    leaseMs: 30_000,
  });
  for (const { id, attemptId } of claimed)
    await jobs.finish({ jobId: id, attemptId }, { type: 'completed' });
  return claimed.map(({ id }) => id);
}

const left = async ({ jobs }: Core): Promise<string[]> =>
  (await jobs.ledger.list({}, { limit: 100 })).jobs.map(({ id }) => id).toReversed();

for (const factory of stores) {
  describe(`retention on ${factory.name}`, () => {
    test('jobs are deleted by age and by count, oldest first; pinned and unfinished jobs stay', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const prune = (limits: Partial<RetentionLimits>) =>
        new Retention(core.jobs, clock, { ...never, ...limits }).prune();
      const old = await ended(core, 3);
      await core.jobs.setPinned(old[1]!, true);
      clock.jump(10_000);
      const fresh = await ended(core, 4);
      const { job: open } = await core.jobs.submit(base);
      assert.equal(await prune({}), 0);
      assert.equal(await prune({ maxAgeMs: 5000 }), 2);
      assert.deepEqual(await left(core), [old[1], ...fresh, open.id]);
      assert.equal(await prune({ maxCount: 3 }), 2);
      assert.deepEqual(await left(core), [old[1], ...fresh.slice(2), open.id]);
      assert.equal(await prune({ maxCount: 0 }), 2, 'a pinned job is exempt from every limit');
      assert.deepEqual(await left(core), [old[1], open.id]);
      assert.deepEqual(await core.store.counters('queue:toy:default'), { completed: 1, queued: 1 });
      await core.jobs.setPinned(old[1]!, false);
      assert.equal(await prune({ maxCount: 0 }), 1);
      await assert.rejects(core.jobs.get(old[1]!), { code: 'notFound' });
    });

    test('jobs are deleted by bytes, only as many as necessary; files count as well as the database', async (t) => {
      const clock = new ManualClock();
      const files = new Map<string, number>();
      const kind = {
        ...toyKind,
        endedBytes: () => [...files.values()].reduce((sum, bytes) => sum + bytes, 0),
        forget: async (ids: readonly string[]) => ids.forEach((id) => files.delete(id)),
      };
      const core = await createCore(t, { factory, clock, kinds: [kind] });
      const ids = await ended(core, 60);
      const megabyte = 2 ** 20;
      for (const id of ids) files.set(id, 10 * megabyte);
      const limits = { ...never, maxBytes: 500 * megabyte };
      await new Retention(core.jobs, clock, limits).prune();
      assert.deepEqual(await left(core), ids.slice(20), 'twenty of ten MB each were enough');
    });

    test('dependencies and children of unfinished jobs stay', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const { job: parent } = await core.jobs.submit({ ...base, runAt: clock.now() + 60_000 });
      const [child] = await ended(core, 1, { parentId: parent.id });
      const [alone] = await ended(core, 1);
      const prune = () => new Retention(core.jobs, clock, { ...never, maxCount: 0 }).prune();
      await prune();
      assert.deepEqual(await left(core), [parent.id, child]);
      await assert.rejects(core.jobs.get(alone!), { code: 'notFound' });
      await core.jobs.cancel(parent.id, 'ada');
      await prune();
      assert.deepEqual(await left(core), []);
    });

    test('a failed dependency stays as long as the job that failed because of it', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const { job: first } = await core.jobs.submit({ ...base, runAt: clock.now() + 60_000 });
      const { job: second } = await core.jobs.submit({ ...base, after: [first.id] });
      await core.jobs.cancel(first.id, 'ada');
      await core.jobs.setPinned(second.id, true);
      const prune = () => new Retention(core.jobs, clock, { ...never, maxCount: 0 }).prune();
      await prune();
      assert.deepEqual(await left(core), [first.id, second.id]);
      await assert.rejects(core.jobs.retry(second.id, 'ada'), { code: 'wrongState' });
      await core.jobs.setPinned(second.id, false);
      await prune();
      assert.deepEqual(await left(core), []);
    });
  });
}

test('the output of a job that has just ended counts once', async (t) => {
  const settings = { command: { checkMs: 1000, maxOutputTotalBytes: 1_000_000 } };
  const { call } = await startApp(t, settings);
  // Long enough that its output is measured while it runs.
  const command = 'head -c 600000 /dev/zero; sleep 1.5';
  const first = await call<{ status: string }>('run_command', { command, waitMs: 30_000 });
  assert.equal(first.status, 'completed');
  const second = await call<{ status: string }>('run_command', { command: 'true', waitMs: 30_000 });
  assert.equal(second.status, 'completed');
});

test('output above the total limit is deleted with its jobs, and new commands are accepted again', async (t) => {
  const settings = { command: { checkMs: 50, maxOutputTotalBytes: 1_000_000 } };
  const { app, call, home } = await startApp(t, settings);
  const print = (bytes: number) =>
    call<{ id: string }>('run_command', {
      ...{ command: `head -c ${bytes} /dev/zero`, waitMs: 20_000 },
    });
  const first = await print(900_000);
  const second = await print(200_000);
  await assert.rejects(print(1), { code: 'limitExceeded', hint: /retention\.maxBytes/ });
  const limits = { ...never, maxBytes: (await app.store.size()) + 500_000 };
  // Batches contain twenty jobs, so both are deleted.
  await new Retention(app.jobs, app.clock, limits).prune();
  for (const { id } of [first, second])
    assert.equal(existsSync(join(home, 'command/jobs', id.slice(-2), id)), false);
  await until('there is space again', () =>
    print(1).then(
      () => true,
      () => false,
    ),
  );
});
