// The contract of the job core on every store: what submit, claim, finish, cancel and retry do and refuse.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EventFeed } from '../../src/jobs/events.ts';
import { queueKey } from '../../src/jobs/intents.ts';
import type { Job } from '../../src/jobs/job.ts';
import { listEventsOperation } from '../../src/jobs/operations/read.ts';
import type { JobFilter } from '../../src/jobs/ledger.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { jobText } from '../../src/jobs/job-text.ts';
import { viewJob } from '../../src/jobs/view.ts';
import { ManualClock, systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { sqliteDdl } from '../../src/store/store.ts';
import { createCore, type Core } from '../helpers/jobs.ts';
import { stores } from '../helpers/stores.ts';
import { until } from '../helpers/until.ts';

const base = { kind: 'toy', owner: 'ada', input: { n: 1 } };
const leaseMs = 30_000;

function claim(
  { jobs }: Core,
  options: { limit?: number; holder?: string; queue?: string; max?: number } = {},
): Promise<Job[]> {
  const name = queueKey('toy', options.queue ?? 'default');
  const queue = options.max === undefined ? { name } : { name, limit: options.max };
  const holder = options.holder ?? 'node_a';
  return jobs.claim({ queues: [queue], limit: options.limit ?? 1, holder, node: holder, leaseMs });
}

const of = (job: Job) => ({ jobId: job.id, attemptId: job.attemptId });

for (const factory of stores) {
  describe(`job core on ${factory.name}`, () => {
    test('a time that a store cannot return exactly is refused and affects no other job', async (t) => {
      const core = await createCore(t, { factory });
      for (const endless of [{ ttlMs: 2 ** 53 - 1 }, { timeoutMs: 2 ** 53 - 1 }])
        await assert.rejects(core.jobs.submit({ ...base, ...endless }), { code: 'invalidInput' });
      const long = 36_500 * 86_400_000;
      const { job } = await core.jobs.submit({ ...base, ttlMs: long, timeoutMs: long });
      assert.deepEqual(
        (await claim(core)).map(({ id }) => id),
        [job.id],
      );
      assert.equal((await core.jobs.get(job.id)).status, 'running');
    });

    test('a submitted job is claimed once, ends once, and has a gapless history', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      assert.match(job.id, /^job_[0-9a-hjkmnp-tv-z]{16}$/);
      const [running] = await claim(core);
      assert.equal(running!.id, job.id);
      assert.equal(running!.status, 'running');
      assert.deepEqual(await claim(core), []);
      const done = await core.jobs.finish(of(running!), {
        type: 'completed',
        result: { ok: true },
      });
      assert.equal(done.applied, true);
      const again = await core.jobs.finish(of(running!), {
        type: 'failed',
        error: { code: 'x', message: 'late' },
      });
      assert.equal(again.applied, false);
      const stored = await core.jobs.get(job.id);
      assert.equal(stored.status, 'completed');
      assert.deepEqual(stored.result, { ok: true });
      const events = await core.jobs.ledger.events(job.id, 0, 100);
      assert.deepEqual(
        events.map(({ n, type }) => [n, type]),
        [
          [1, 'submitted'],
          [2, 'started'],
          [3, 'completed'],
        ],
      );
      assert.deepEqual(await core.store.counters('queue:toy:default'), { completed: 1 });
    });

    test('jobs are counted per owner in a queue, including jobs from before the counter existed', async (t) => {
      const { jobs, store } = await createCore(t, { factory });
      for (const owner of ['ada', 'ada', 'bo']) await jobs.submit({ ...base, owner });
      const { job } = await jobs.submit({ ...base, queue: 'other' });
      await jobs.cancel(job.id, 'ada');
      const own = (queue: string, owner: string) => store.counters(`queue:toy:${queue}/${owner}`);
      const kept = async () => [
        await own('default', 'ada'),
        await own('default', 'bo'),
        await own('other', 'ada'),
      ];
      const expected = [{ queued: 2 }, { queued: 1 }, { cancelled: 1 }];
      assert.deepEqual(await kept(), expected);
      await store.promote(0);
      const counting = jobMigrations.find(({ id }) => id === 'jobs/7')!.statements(sqliteDdl);
      const forget = `DELETE FROM counters WHERE scope LIKE '%/%'`;
      await store.commit([forget, ...counting].map((sql) => ({ sql })));
      assert.deepEqual(await kept(), expected);
    });

    test('events of one tick keep the order of their steps; a refused command writes none', async (t) => {
      const { store } = await createCore(t, { factory });
      const event = (jobId: string, n: number, type = 'noted') => ({
        event: { jobId, n, type, at: n, data: '{}' },
      });
      const note = (value: string) => ({
        sql: 'INSERT INTO marks (name, value) VALUES (?, ?)',
        params: [value, 0],
      });
      const rename = {
        sql: `UPDATE events SET type = 'seen' WHERE job_id = ? AND n = 1`,
        params: ['b'],
        expect: 1,
      };
      const never = (table: string) => ({ sql: `DELETE FROM ${table} WHERE 1 = 0`, expect: 1 });
      const twice = [note('twice'), event('d', 1), event('d', 1)];
      const many = Array.from({ length: 37 }, (_, i) => event('c', i + 1));
      const results = await Promise.allSettled([
        store.commit([event('a', 1), event('a', 2)]),
        store.commit([event('b', 1), rename]),
        store.commit([note('undone'), event('u', 1), never('events')]),
        store.commit(twice),
        store.commit([note('undone'), event('u', 2), never('marks')]),
        store.commit(many),
      ]);
      assert.deepEqual(
        results.map((result) => result.status === 'fulfilled' && result.value.applied),
        [true, true, false, false, false, true],
      );
      const rows = await store.read<{ job_id: string; n: number; type: string }>(
        'SELECT job_id, n, type FROM events ORDER BY cursor',
      );
      const of = (...ids: string[]) => rows.filter((row) => ids.includes(row.job_id));
      assert.deepEqual(
        of('a', 'b').map(({ job_id, n, type }) => [job_id, n, type]),
        [
          ['a', 1, 'noted'],
          ['a', 2, 'noted'],
          ['b', 1, 'seen'],
        ],
      );
      assert.deepEqual(
        of('c').map(({ n }) => n),
        many.map(({ event: { n } }) => n),
      );
      assert.deepEqual(of('u', 'd'), []);
      assert.deepEqual(
        await store.read(`SELECT name FROM marks WHERE name IN ('undone', 'twice')`),
        [],
      );
    });

    test('a row that is read again equals the last write, even if a reader modified its copy', async (t) => {
      const { store } = await createCore(t, { factory });
      const write = (sql: string) => store.commit([{ sql, expect: 1 }]);
      const readMarks = () =>
        store.read<{ name: string; value: number }>(
          'SELECT name, value FROM marks WHERE name = ?',
          ['mine'],
        );
      assert.deepEqual(await readMarks(), []);
      await write(`INSERT INTO marks (name, value) VALUES ('mine', 1)`);
      const [first] = await readMarks();
      first!.value = 99;
      const [second] = await readMarks();
      assert.deepEqual(second, { name: 'mine', value: 1 });
      second.value = 99;
      assert.deepEqual(await readMarks(), [{ name: 'mine', value: 1 }]);
      const changing = write(`UPDATE marks SET value = 2 WHERE name = 'mine'`);
      const meanwhile = (await readMarks())[0]!.value;
      assert.ok(meanwhile === 1 || meanwhile === 2);
      await changing;
      assert.deepEqual(await readMarks(), [{ name: 'mine', value: 2 }]);
      await write(`DELETE FROM marks WHERE name = 'mine'`);
      assert.deepEqual(await readMarks(), []);
    });

    test('attempts start by priority, then in submission order; the queue limit holds', async (t) => {
      const core = await createCore(t, { factory });
      const ids: string[] = [];
      for (const priority of [0, 5, 0, 5])
        ids.push((await core.jobs.submit({ ...base, priority })).job.id);
      const first = await claim(core, { limit: 3, max: 2 });
      assert.deepEqual(
        first.map(({ id }) => id),
        [ids[1], ids[3]],
      );
      assert.deepEqual(await claim(core, { limit: 3, max: 2 }), []);
      await core.jobs.finish(of(first[0]!), { type: 'completed' });
      assert.deepEqual(
        (await claim(core, { limit: 3, max: 2 })).map(({ id }) => id),
        [ids[0]],
      );
    });

    test('a delayed job starts when due; a job past its time to live never starts', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const later = await core.jobs.submit({ ...base, runAt: clock.now() + 5000 });
      const { job: first } = await core.jobs.submit({ ...base, runAt: clock.now() + 9000 });
      const brief = await core.jobs.submit({ ...base, ttlMs: 1000, after: [first.id] });
      assert.deepEqual(await claim(core), []);
      clock.jump(5000);
      await core.store.promote(clock.now());
      assert.deepEqual(
        (await claim(core)).map(({ id }) => id),
        [later.job.id],
      );
      assert.deepEqual(await core.jobs.ledger.expiredIds(clock.now(), 10), [brief.job.id]);
      await core.jobs.expire(brief.job.id);
      const ended = await core.jobs.get(brief.job.id);
      assert.equal(ended.status, 'timed_out');
      assert.equal(ended.error?.code, 'queueTimeout');
      clock.jump(10_000);
      await core.store.promote(clock.now());
      assert.deepEqual(
        (await claim(core, { limit: 2 })).map(({ id }) => id),
        [first.id],
      );
    });

    test('a job whose time to live ends before it may start is refused, alone and in a batch', async (t) => {
      const clock = new ManualClock();
      const { jobs } = await createCore(t, { factory, clock });
      const submission = { ...base, ttlMs: 1000, runAt: clock.now() + 1000 };
      const refusal = { code: 'invalidInput', message: /time to live/ };
      await assert.rejects(jobs.submit(submission), refusal);
      await assert.rejects(jobs.submitMany([base, submission]), refusal);
      assert.deepEqual((await jobs.ledger.list({}, { limit: 10 })).jobs, [], 'all or none');
      const keyed = { ...submission, ttlMs: 1001, idempotencyKey: 'once' };
      const { job } = await jobs.submit(keyed);
      clock.jump(5000);
      assert.equal((await jobs.submit(keyed)).job.id, job.id, 'it was submitted in time');
    });

    test('no attempt starts after the time to live, even without a sweep in between', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const { job: late } = await core.jobs.submit({ ...base, ttlMs: 1000 });
      clock.jump(1000);
      const { job: next } = await core.jobs.submit({ ...base, ttlMs: 1000 });
      assert.deepEqual(await claim(core), []);
      await core.jobs.expire(late.id);
      assert.deepEqual(
        (await claim(core)).map(({ id }) => id),
        [next.id],
      );
    });

    test('an attempt that fails too late for another one ends the job with its own error', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const retry = { maxAttempts: 3, backoffMs: 1000, jitter: 0 };
      const { job } = await core.jobs.submit({ ...base, ttlMs: 5000, retry });
      const [first] = await claim(core);
      clock.jump(1000);
      const error = { code: 'exit', message: 'exit code 1' };
      await core.jobs.finish(of(first!), { type: 'failed', error });
      clock.jump(1000);
      await core.store.promote(clock.now());
      const [second] = await claim(core);
      clock.jump(60_000);
      const end = await core.jobs.finish(of(second!), { type: 'failed', error });
      assert.equal(end.job.status, 'failed');
      assert.deepEqual(end.job.error, error);
      assert.deepEqual([end.job.id, end.job.attempt], [job.id, 2]);
    });

    test('every manual retry restarts the time to live of the submission', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const { job } = await core.jobs.submit({ ...base, ttlMs: 1000 });
      for (const attempt of [2, 3]) {
        clock.jump(60_000);
        await core.jobs.expire(job.id);
        const again = await core.jobs.retry(job.id, 'ada');
        assert.equal(again.attempt, attempt);
        assert.equal(again.expiresAt, clock.now() + 1000);
      }
      clock.jump(1000);
      await core.jobs.expire(job.id);
      assert.match((await core.jobs.get(job.id)).error!.message, /attempt 3/);
    });

    test('the store counts the attempts ahead in a queue: by priority, then by age', async (t) => {
      const { jobs, store } = await createCore(t, { factory });
      const submit = async (more: object) => (await jobs.submit({ ...base, ...more })).job;
      const first = await submit({});
      const second = await submit({});
      const urgent = await submit({ priority: 5 });
      await submit({ queue: 'other' });
      const ahead = ({ attemptId }: { attemptId: string }, limit = 10) =>
        store.countAhead(queueKey('toy', 'default'), attemptId, limit);
      const counts = [await ahead(urgent), await ahead(first), await ahead(second)];
      assert.deepEqual(counts, [0, 1, 2]);
      assert.equal(await ahead(second, 1), 1);
    });

    test('a queued job shows what it waits for, and later how long it was queued', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const shown = async (id: string) => viewJob(core.jobs, await core.jobs.get(id), clock.now());
      const iso = (ms: number) => new Date(clock.now() + ms).toISOString();
      const retry = { maxAttempts: 2, backoffMs: 1000, jitter: 0 };
      const { job: first } = await core.jobs.submit({ ...base, runAt: clock.now() + 5000, retry });
      const dependent = { ...base, after: [first.id], priority: 3, ttlMs: 60_000 };
      const { job: second } = await core.jobs.submit(dependent);
      assert.equal((await shown(first.id)).runAt, iso(5000));
      const { after, priority, expiresAt, ...rest } = await shown(second.id);
      assert.deepEqual([after, priority, expiresAt], [[first.id], 3, iso(60_000)]);
      assert.equal(rest.runAt, undefined, 'it is due');
      assert.match(jobText(core.jobs, await shown(second.id)), new RegExp(`waits for ${first.id}`));
      clock.jump(7000);
      await core.store.promote(clock.now());
      const [running] = await claim(core);
      const started = await shown(first.id);
      assert.deepEqual([started.runAt, started.timings.queuedMs], [undefined, 2000]);
      await core.jobs.finish(of(running!), { type: 'failed', error: { code: 'x', message: 'x' } });
      const pausing = await shown(first.id);
      assert.equal(pausing.runAt, iso(1000));
      assert.match(jobText(core.jobs, pausing), new RegExp(`not before ${iso(1000)}`));
    });

    test('the same key and body yield one job, even concurrently; another body is refused', async (t) => {
      const core = await createCore(t, { factory });
      const keyed = { ...base, idempotencyKey: 'build-7' };
      const results = await Promise.all(Array.from({ length: 20 }, () => core.jobs.submit(keyed)));
      assert.equal(new Set(results.map(({ job }) => job.id)).size, 1);
      assert.equal(results.filter(({ existing }) => !existing).length, 1);
      await assert.rejects(core.jobs.submit({ ...keyed, input: { n: 2 } }), {
        code: 'idempotencyConflict',
      });
      const other = await core.jobs.submit({ ...keyed, owner: 'bob' });
      assert.notEqual(other.job.id, results[0]!.job.id);
      const pair = await core.jobs.submitMany([
        { ...base, idempotencyKey: 'p' },
        { ...base, idempotencyKey: 'p' },
      ]);
      assert.equal(pair[0]!.job.id, pair[1]!.job.id);
    });

    test('a failed attempt is retried after its backoff; earlier attempts stay readable', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const retry = { maxAttempts: 2, backoffMs: 1000, jitter: 0 };
      const { job } = await core.jobs.submit({ ...base, retry });
      const [one] = await claim(core);
      const failed = {
        type: 'failed',
        error: { code: 'exitCode', message: 'exit 3' },
        facts: { exitCode: 3 },
      } as const;
      await core.jobs.finish(of(one!), failed);
      assert.equal((await core.jobs.get(job.id)).status, 'queued');
      assert.deepEqual(await claim(core), []);
      clock.jump(1000);
      await core.store.promote(clock.now());
      const [two] = await claim(core);
      assert.equal(two!.attempt, 2);
      assert.equal((await core.jobs.finish(of(one!), { type: 'completed' })).applied, false);
      await core.jobs.finish(of(two!), failed);
      assert.equal((await core.jobs.get(job.id)).status, 'failed');
      const [kept] = await core.jobs.ledger.attempts(job.id);
      assert.deepEqual(kept!.facts, { exitCode: 3 });
      const third = await core.jobs.retry(job.id, 'ada');
      assert.equal(third.attempt, 3);
      const [three] = await claim(core);
      await core.jobs.finish(of(three!), { type: 'completed' });
      await assert.rejects(core.jobs.retry(job.id, 'ada'), { code: 'wrongState' });
      assert.equal((await core.jobs.ledger.attempts(job.id)).length, 2);
    });

    test('a lost lease leads to a new attempt or the end of the job; the late holder changes nothing', async (t) => {
      const clock = new ManualClock();
      const core = await createCore(t, { factory, clock });
      const { job } = await core.jobs.submit({
        ...base,
        retry: { maxAttempts: 5, maxLost: 1, backoffMs: 0 },
      });
      const [one] = await claim(core, { holder: 'node_a' });
      assert.deepEqual(await core.store.lostAttempts(clock.now(), 10), []);
      clock.jump(leaseMs);
      const [gone] = await core.store.lostAttempts(clock.now(), 10);
      assert.equal(gone!.attemptId, one!.attemptId);
      await core.jobs.lose(gone!);
      assert.deepEqual(
        await core.store.heartbeat([one!.attemptId], 'node_a', clock.now() + leaseMs),
        new Set(),
      );
      await core.store.promote(clock.now());
      const [two] = await claim(core, { holder: 'node_b' });
      assert.equal(two!.attempt, 2);
      assert.equal((await core.jobs.finish(of(one!), { type: 'completed' })).applied, false);
      assert.deepEqual(
        await core.store.heartbeat([two!.attemptId], 'node_b', clock.now() + 9 * leaseMs),
        new Set([two!.attemptId]),
      );
      clock.jump(2 * leaseMs);
      assert.deepEqual(await core.store.lostAttempts(clock.now(), 10), []);
      await core.jobs.lose(of(two!));
      const ended = await core.jobs.get(job.id);
      assert.equal(ended.status, 'failed');
      assert.equal(ended.error?.code, 'lost');
    });

    test('cancel ends a queued job immediately and asks a running one to stop; it prevents retries', async (t) => {
      const core = await createCore(t, { factory });
      const { job: queued } = await core.jobs.submit(base);
      assert.equal((await core.jobs.cancel(queued.id, 'ada')).status, 'cancelled');
      assert.deepEqual(await claim(core), []);
      const { job } = await core.jobs.submit({ ...base, retry: { maxAttempts: 5 } });
      const [running] = await claim(core);
      const notified: string[] = [];
      core.jobs.onCancel(({ id }) => notified.push(id));
      assert.equal((await core.jobs.cancel(job.id, 'ada')).status, 'running');
      assert.deepEqual(notified, [job.id]);
      await core.jobs.finish(of(running!), {
        type: 'failed',
        error: { code: 'signal', message: 'SIGTERM' },
      });
      assert.equal((await core.jobs.get(job.id)).status, 'cancelled');
      assert.equal((await core.jobs.cancel(job.id, 'ada')).status, 'cancelled');
    });

    test('a manual retry resets the count of lost attempts', async (t) => {
      const core = await createCore(t, { factory });
      const retry = { maxAttempts: 5, maxLost: 1, backoffMs: 0 };
      const { job } = await core.jobs.submit({ ...base, retry });
      const loseNext = async () => {
        await core.store.promote(core.clock.now());
        const [running] = await claim(core);
        return (await core.jobs.lose(of(running!))).job.status;
      };
      assert.equal(await loseNext(), 'queued');
      assert.equal(await loseNext(), 'failed', 'two holders in a row died');
      await core.jobs.retry(job.id, 'ada');
      assert.equal(await loseNext(), 'queued', 'one more loss is allowed');
    });

    test('a second cancel can shorten the grace period but not extend it', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      await claim(core);
      const graceAfter = async (graceMs?: number) =>
        (await core.jobs.cancel(job.id, 'ada', undefined, graceMs)).facts.cancelGraceMs;
      assert.equal(await graceAfter(5000), 5000);
      assert.equal(await graceAfter(60_000), 5000);
      assert.equal(await graceAfter(), 5000);
      assert.equal(await graceAfter(100), 100);
    });

    test('a job runs after all its dependencies completed and fails when one of them fails', async (t) => {
      const core = await createCore(t, { factory });
      const a = (await core.jobs.submit(base)).job;
      const b = (await core.jobs.submit(base)).job;
      const both = (await core.jobs.submit({ ...base, queue: 'later', after: [a.id, b.id] })).job;
      const [one, two] = await claim(core, { limit: 2 });
      await core.jobs.finish(of(one!), { type: 'completed' });
      assert.deepEqual(await claim(core, { queue: 'later' }), []);
      await core.jobs.finish(of(two!), { type: 'completed' });
      assert.deepEqual(
        (await claim(core, { queue: 'later' })).map(({ id }) => id),
        [both.id],
      );
      const c = (await core.jobs.submit(base)).job;
      const never = (await core.jobs.submit({ ...base, queue: 'later', after: [c.id] })).job;
      const [three] = await claim(core);
      await core.jobs.finish(of(three!), { type: 'failed', error: { code: 'x', message: 'no' } });
      assert.equal((await core.jobs.get(never.id)).error?.code, 'dependencyFailed');
      await assert.rejects(core.jobs.retry(never.id, 'ada'), { code: 'wrongState' });
      await assert.rejects(core.jobs.submit({ ...base, after: [c.id] }), { code: 'wrongState' });
      await assert.rejects(core.jobs.submit({ ...base, after: ['job_0000000000000000'] }), {
        code: 'notFound',
      });
    });

    test('lists filter and paginate without gaps', async (t) => {
      const core = await createCore(t, { factory });
      for (let i = 0; i < 25; i++) {
        await core.jobs.submit({
          ...base,
          name: `job ${i}`,
          tags: i % 2 ? ['odd', '50%_'] : ['even'],
          owner: i < 20 ? 'ada' : 'bob',
        });
      }
      const seen: string[] = [];
      let before: number | undefined;
      do {
        const page = await core.jobs.ledger.list(
          { owner: 'ada' },
          { limit: 7, ...(before === undefined ? {} : { before }) },
        );
        seen.push(...page.jobs.map(({ name }) => name!));
        before = page.next;
      } while (before !== undefined);
      assert.deepEqual(
        seen,
        Array.from({ length: 20 }, (_, i) => `job ${19 - i}`),
      );
      const all = { limit: 100 };
      assert.equal((await core.jobs.ledger.list({ tags: ['50%_'] }, all)).jobs.length, 12);
      assert.equal((await core.jobs.ledger.list({ text: 'JOB 7' }, all)).jobs.length, 1);
      assert.equal((await core.jobs.ledger.list({ statuses: ['running'] }, all)).jobs.length, 0);
      assert.equal(
        (await core.jobs.ledger.list({ statuses: ['queued'], kinds: ['toy'] }, all)).jobs.length,
        25,
      );
    });

    test('text matches quotes, consecutive arguments and letters beyond ASCII; tags match exactly', async (t) => {
      const core = await createCore(t, { factory });
      const input = { argv: ['npm', 'test', 'say "hi" C:\\x\tend'] };
      await core.jobs.submit({ ...base, input, name: 'ÄPFEL 100%', tags: ['CI', 'a_b'] });
      const found = async (filter: JobFilter) =>
        (await core.jobs.ledger.list(filter, { limit: 9 })).jobs.length;
      for (const text of ['NPM test say', 'say "hi"', 'C:\\X\tEnd', 'ÄPFEL', '100%'])
        assert.equal(await found({ text }), 1, text);
      for (const text of ['npm_test', '1%0', 'Äpfelx'])
        assert.equal(await found({ text }), 0, text);
      for (const [tag, count] of [
        ['CI', 1],
        ['ci', 0],
        ['C', 0],
        ['a_b', 1],
        ['axb', 0],
      ] as const)
        assert.equal(await found({ tags: [tag] }), count, tag);
    });

    test('two concurrent subscribers receive every event once', async (t) => {
      const core = await createCore(t, { factory });
      const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let asked = 0;
      const slow = Object.create(core.store, {
        eventCursor: {
          value: async () => {
            const gate = gates[asked++]!;
            const cursor = await core.store.eventCursor();
            await gate.promise;
            return cursor;
          },
        },
      }) as Core['store'];
      const feed = new EventFeed(slow, silentLog);
      t.after(() => feed.close());
      const heard: number[] = [];
      const first = feed.subscribe(({ n }) => heard.push(n));
      const second = feed.subscribe(() => {});
      gates[0]!.resolve();
      await first;
      const { job } = await core.jobs.submit(base);
      await until('the first event arrives', () => heard.length === 1);
      gates[1]!.resolve();
      await second;
      await core.jobs.cancel(job.id, 'ada');
      await until('the second event arrives', () => heard.includes(2));
      assert.deepEqual(heard, [1, 2]);
    });

    test('eight concurrent claims never get the same attempt', async (t) => {
      const core = await createCore(t, { factory });
      await core.jobs.submitMany(Array.from({ length: 40 }, () => base));
      const taken = await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          const mine: string[] = [];
          for (;;) {
            const got = await claim(core, { limit: 3, holder: `node_${i}` });
            if (got.length === 0) return mine;
            mine.push(...got.map(({ id }) => id));
          }
        }),
      );
      const ids = taken.flat();
      assert.equal(ids.length, 40);
      assert.equal(new Set(ids).size, 40);
    });

    test('a conflicting commit changes nothing and does not affect other commits of its group', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      const good = core.store.commit([
        { sql: 'UPDATE jobs SET name = ? WHERE id = ?', params: ['kept', job.id], expect: 1 },
      ]);
      const bad = core.store.commit([
        { sql: 'UPDATE jobs SET name = ? WHERE id = ?', params: ['lost', job.id] },
        { count: { scope: 'x', key: 'y', delta: 1 } },
        { sql: 'UPDATE jobs SET name = ? WHERE id = ?', params: ['none', 'job_none'], expect: 1 },
      ]);
      assert.equal((await good).applied, true);
      assert.deepEqual(await bad, { applied: false, step: 2 });
      assert.equal((await core.jobs.get(job.id)).name, 'kept');
      assert.deepEqual(await core.store.counters('x'), {});
    });

    test('the feed delivers committed events in order', async (t) => {
      const core = await createCore(t, { factory });
      const seen: string[] = [];
      const { job } = await core.jobs.submit(base);
      const off = await core.feed.subscribe((event) => seen.push(event.type), job.id);
      const ended = core.waiting.waitForEnd(job.id, new AbortController().signal);
      const [running] = await claim(core);
      await core.jobs.applyFact(job.id, {
        type: 'report',
        attemptId: running!.attemptId,
        progress: { done: 1 },
      });
      await core.jobs.finish(of(running!), { type: 'completed' });
      assert.equal((await ended)!.status, 'completed');
      await until('the last event arrives', () => seen.includes('completed'));
      off();
      assert.deepEqual(seen, ['started', 'progress', 'completed']);
    });

    test('a wait with a timeout of 0 still reports ended jobs', async (t) => {
      const core = await createCore(t, { factory, clock: systemClock });
      const ids: string[] = [];
      for (let i = 0; i < 3; i++) ids.push((await core.jobs.submit(base)).job.id);
      const wait = () =>
        core.waiting.wait({
          ids,
          mode: 'all',
          timeoutMs: 0,
          signal: new AbortController().signal,
        });
      assert.equal((await wait()).timedOut, true);
      for (const id of ids) await core.jobs.cancel(id, 'ada');
      const { timedOut, reached } = await wait();
      assert.deepEqual([timedOut, [...reached.keys()].toSorted()], [false, ids.toSorted()]);
    });

    test('an event stream includes the end of the job even if it happens between two reads', async (t) => {
      const core = await createCore(t, { factory });
      const { job } = await core.jobs.submit(base);
      const [running] = await claim(core);
      const { ledger } = core.jobs;
      const read = ledger.events.bind(ledger);
      ledger.events = async (...args) => {
        const events = await read(...args);
        if (events.length === 0) await core.jobs.finish(of(running!), { type: 'completed' });
        return events;
      };
      const follow = listEventsOperation(core).stream!(
        { id: job.id, after: 0, limit: 100 },
        {
          caller: { owner: 'ada', scopes: new Set(['read']), admin: false, local: true },
          signal: new AbortController().signal,
        },
      );
      const types: string[] = [];
      for await (const { event } of follow) types.push(event);
      assert.deepEqual(types, ['submitted', 'started', 'completed']);
    });
  });
}
