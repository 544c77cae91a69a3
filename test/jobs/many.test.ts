// Operations on many jobs, on both stores: sorting, counts, statistics and changes by filter.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import type { Job } from '../../src/jobs/job.ts';
import { countJobs } from '../../src/jobs/scan.ts';
import {
  countEnded,
  countSubmitted,
  moveOldStats,
  readStats,
  sampleQueues,
} from '../../src/jobs/stats.ts';
import { startApp, type TestApp } from '../helpers/app.ts';
import { isDeep } from '../helpers/deep.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

const stores: [string, () => Promise<Record<string, string>>][] = [
  ['sqlite', async () => ({})],
  ['postgres', async () => ({ ERRAND_STORE: await migratedDatabase(allMigrations()) })],
];
/** More than one call changes. */
const crowdSize = isDeep ? 11_000 : 600;
const later = '2999-01-01T00:00:00Z';

for (const [store, env] of stores) {
  test(`operations on many jobs on ${store}`, async (t) => {
    const place = await startApp(t, {}, { env: await env() });
    await t.test('pages in any order contain every job once', () => sorted(place));
    await t.test('counts are exact or limited', () => counts(place));
    await t.test('statistics count every job once and keep percentiles within 5 %', () =>
      statistics(place),
    );
    await t.test('old statistics move to hours and days without a loss', () => moves(place));
    await t.test('a change needs the number of matching jobs', () => changes(place));
    await t.test('a change of many jobs is a job, and keeps to its owner', () => bulk(place));
  });
}

const owner = (name: string) => ({ caller: { owner: name, admin: false } });
const run = async ({ call }: TestApp, input: object, who = 'me'): Promise<string> =>
  (
    await call<{ id: string }>(
      'run_command',
      { argv: ['true'], waitMs: 20_000, ...input },
      owner(who),
    )
  ).id;

async function sorted(place: TestApp): Promise<void> {
  const { call } = place;
  const durations = ['0.4', '0.05', '0.2', '0.05', '0.1'];
  const ids: string[] = [];
  for (const seconds of durations)
    ids.push(await run(place, { argv: ['sleep', seconds], tags: ['sorted'] }));
  const waiting = await run(place, { tags: ['sorted'], runAt: later, waitMs: 0 });
  const pages = async (sort: string) => {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await call<{ jobs: { id: string }[]; nextCursor?: string }>('list_jobs', {
        tag: ['sorted'],
        sort,
        limit: 2,
        ...(cursor ? { cursor } : {}),
      });
      found.push(...page.jobs.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return found;
  };
  assert.deepEqual(await pages('created-asc'), [...ids, waiting]);
  assert.deepEqual(await pages('created-desc'), [...ids, waiting].toReversed());
  assert.deepEqual(await pages('ended-asc'), ids, 'only ended jobs');
  assert.deepEqual(await pages('ended-desc'), ids.toReversed());
  const longest = await pages('duration-desc');
  assert.equal(longest[0], ids[0]);
  assert.deepEqual(longest.toSorted(), ids.toSorted());
  assert.deepEqual(await pages('duration-asc'), longest.toReversed());
  await assert.rejects(call('list_jobs', { sort: 'ended-desc', cursor: '7' }), {
    code: 'invalidInput',
  });
  await call('cancel_job', { id: waiting });
}

interface Counted {
  count: number;
  isExact: boolean;
  byStatus: Record<string, number>;
}

async function counts(place: TestApp): Promise<void> {
  const { call, app } = place;
  for (let i = 0; i < 3; i++) await run(place, { queue: 'counted', name: 'one' }, 'ann');
  await run(place, { queue: 'counted', argv: ['false'] }, 'bob');
  const count = (input: object, who?: string) =>
    call<Counted>('count_jobs', input, who === undefined ? {} : owner(who));
  assert.deepEqual(await count({ queue: 'counted' }), {
    count: 4,
    isExact: true,
    byStatus: { completed: 3, failed: 1 },
  });
  assert.equal((await count({ queue: 'counted' }, 'bob')).count, 1);
  assert.equal((await count({ queue: 'counted', status: ['failed'] })).count, 1);
  assert.deepEqual(await count({ queue: 'counted', name: 'one' }), {
    count: 3,
    isExact: true,
    byStatus: { completed: 3 },
  });
  assert.equal((await count({ kind: ['web'] })).count, 0);
  const submissions = Array.from({ length: crowdSize }, () => ({
    kind: 'command',
    owner: 'crowd',
    input: { argv: ['true'] },
    name: 'crowd',
    labels: ['none'],
  }));
  await app.jobs.submitMany(submissions);
  const many = await countJobs(app.store, { name: 'crowd' }, 500);
  assert.deepEqual([many.count, many.isExact], [500, false], 'it stops counting at the limit');
  assert.equal((await count({ name: 'crowd' })).isExact, crowdSize <= 10_000);
  assert.equal((await count({}, 'crowd')).count, crowdSize, 'counters are exact');
}

interface Stats {
  stepMs: number;
  series: {
    kind: string;
    queue: string;
    runMs?: { p95: number };
    points: Record<string, unknown>[];
  }[];
}

async function statistics(place: TestApp): Promise<void> {
  const { call, app } = place;
  await run(place, { queue: 'stats' }, 'ann');
  await run(place, { queue: 'stats', argv: ['sleep', '0.3'] }, 'ann');
  await run(place, { queue: 'stats', argv: ['false'] }, 'ann');
  const cancelled = await run(place, { queue: 'stats', runAt: later, waitMs: 0 }, 'ann');
  await sampleQueues(app.store, app.clock.now());
  await call('cancel_job', { id: cancelled });
  await sampleQueues(app.store, app.clock.now());
  const total = (stats: Stats, field: string) =>
    stats.series
      .filter(({ queue }) => queue === 'stats')
      .flatMap(({ points }) => points)
      .reduce((sum, point) => sum + (point[field] as number), 0);
  for (const rangeMs of [3_600_000, 86_400_000, 7 * 86_400_000, 100 * 86_400_000]) {
    const stats = await call<Stats>('get_stats', { rangeMs, queue: 'stats' });
    assert.deepEqual(
      ['submitted', 'completed', 'failed', 'cancelled', 'timedOut'].map((f) => total(stats, f)),
      [4, 2, 1, 1, 0],
      `range ${rangeMs}`,
    );
    assert.ok(rangeMs / stats.stepMs <= 130);
  }
  const other = await call<Stats>('get_stats', {}, owner('bob'));
  assert.equal(total(other, 'submitted'), 0, 'other owners do not see them');
  const { series } = await call<Stats>('get_stats', { queue: 'stats' }, owner('ann'));
  const { jobs } = await call<{ jobs: { runMs: number; status: string }[] }>('list_jobs', {
    queue: 'stats',
    status: ['completed', 'failed'],
  });
  assert.equal(Math.max(...series[0]!.points.map(({ queued }) => queued as number)), 1);
  const longest = Math.max(...jobs.map(({ runMs }) => runMs));
  const shown = series[0]!.points.map(
    ({ runMs }) => (runMs as { p95: number } | undefined)?.p95 ?? 0,
  );
  for (const value of [Math.max(...shown), series[0]!.runMs!.p95]) {
    const error = Math.abs(value - longest) / longest;
    assert.ok(error <= 0.05, `${value} instead of ${longest}`);
  }
}

async function moves({ app }: TestApp): Promise<void> {
  const { store } = app;
  const day = 86_400_000;
  const now = Math.floor(app.clock.now() / day) * day;
  const job = (at: number) =>
    ({ kind: 'command', queue: 'moved', owner: 'me', status: 'queued', createdAt: at, runAt: at, startedAt: at + 5, facts: { runMs: 250 } }) as unknown as Job; // prettier-ignore
  const times = [1, 2, 30, 31, 100, 399].map((days) => now - days * day - 1000);
  for (const at of times) {
    const ended = { ...job(at), status: 'completed' } as Job;
    await store.commit([...countSubmitted(job(at)), ...countEnded(job(at), ended, at)]);
  }
  const sum = async () => {
    const values = (await readStats(store, 0)).filter(({ queue }) => queue === 'moved');
    return Object.fromEntries(
      [...Map.groupBy(values, ({ key }) => key.split(':')[0]!)].map(([key, own]) => [
        key,
        own.reduce((total, { n }) => total + n, 0),
      ]),
    );
  };
  const before = await sum();
  assert.deepEqual(before, { submitted: 6, completed: 6, wait: 6 });
  // PostgreSQL moves only what the sweep has folded.
  await until('old minutes are gone', async () => {
    await store.promote(app.clock.now());
    await moveOldStats(store, now);
    const left = async (level: string) =>
      (await store.counterRange({ from: `stats:${level}:`, to: `stats:${level};` })).filter(
        ({ scope }) => scope.includes(':moved:'),
      ).length;
    return (await left('m')) <= 3 && (await left('h')) > 0 && (await left('d')) > 0;
  });
  assert.deepEqual(await sum(), before, 'moving changes no sum');
  await moveOldStats(store, now + 2 * day);
  await until('what is too old is deleted', async () => {
    await store.promote(app.clock.now());
    await moveOldStats(store, now + 2 * day);
    return (await sum()).submitted === 5;
  });
}

interface Change {
  matched: number;
  changed: number;
  skipped: { reason: string; count: number }[];
  id?: string;
}

async function changes(place: TestApp): Promise<void> {
  const { call } = place;
  const change = (input: object, who = 'cat') => call<Change>('change_jobs', input, owner(who));
  const failed = [
    await run(place, { argv: ['false'], queue: 'bulk' }, 'cat'),
    await run(place, { argv: ['false'], queue: 'bulk' }, 'cat'),
  ];
  const done = await run(place, { queue: 'bulk' }, 'cat');
  const waiting = await run(place, { queue: 'bulk', runAt: later, waitMs: 0 }, 'cat');
  await run(place, { queue: 'bulk' }, 'dan');
  const filter = { queue: 'bulk' };
  const dry = await change({ action: 'retry', filter, dryRun: true });
  assert.deepEqual([dry.matched, dry.changed], [4, 2]);
  assert.deepEqual(
    dry.skipped.toSorted((a, b) => a.reason.localeCompare(b.reason)),
    [
      { reason: 'is completed', count: 1 },
      { reason: 'is queued', count: 1 },
    ],
  );
  await assert.rejects(change({ action: 'retry', filter }), { code: 'invalidInput' });
  await assert.rejects(change({ action: 'retry', filter, expectedCount: 3 }), { code: 'conflict' });
  const attempts = async (id: string) =>
    (await call<{ attempts: { number: number } }>('get_job', { id })).attempts.number;
  assert.equal(await attempts(failed[0]!), 1, 'a rejected call changes nothing');
  const retried = await change({ action: 'retry', filter, expectedCount: 4 });
  assert.deepEqual([retried.matched, retried.changed], [4, 2]);
  for (const id of failed) {
    assert.equal(await attempts(id), 2);
    await call('wait_for_jobs', { ids: [id], waitMs: 20_000 });
  }
  const pinned = await change({ action: 'pin', filter: { ids: [done, done] }, expectedCount: 1 });
  assert.equal(pinned.changed, 1);
  const removed = await change({ action: 'delete', filter, expectedCount: 4 });
  assert.equal(removed.changed, 2);
  assert.deepEqual(
    Object.fromEntries(removed.skipped.map(({ reason, count }) => [reason, count])),
    { pinned: 1, 'not ended': 1 },
  );
  const cancelled = await change({ action: 'cancel', filter, expectedCount: 2 });
  assert.equal(cancelled.changed, 1);
  assert.equal((await call<{ status: string }>('get_job', { id: waiting })).status, 'cancelled');
  assert.equal((await change({ action: 'unpin', filter, expectedCount: 2 })).changed, 1);
  const last = await change({ action: 'delete', filter, expectedCount: 2 });
  assert.equal(last.changed, 2);
  assert.equal((await call<Counted>('count_jobs', filter)).count, 1, 'the job of dan is left');
  await assert.rejects(change({ action: 'explode', filter, dryRun: true }), {
    code: 'invalidInput',
  });
}

async function bulk(place: TestApp): Promise<void> {
  const { call } = place;
  const filter = { name: 'crowd' };
  const crowd = owner('crowd');
  const dry = await call<Change>('change_jobs', { action: 'cancel', filter, dryRun: true }, crowd);
  assert.deepEqual([dry.matched, dry.changed], [crowdSize, crowdSize], 'a dry run counts exactly');
  const request = { action: 'cancel', filter: { ...filter, text: 'crowd' } };
  const limited = { caller: { owner: 'crowd', admin: false, kinds: ['command'] } };
  await assert.rejects(call('change_jobs', { ...request, expectedCount: crowdSize }, limited), {
    code: 'limitExceeded',
  });
  const { id } = await call<Change>('change_jobs', { ...request, expectedCount: crowdSize }, crowd);
  const job = await until('the job ends', async () => {
    const found = await call<{ status: string; kind: string; result?: Change }>('get_job', {
      id,
    });
    return ['completed', 'failed'].includes(found.status) ? found : undefined;
  });
  assert.deepEqual([job.status, job.kind], ['completed', 'change']);
  assert.deepEqual([job.result!.matched, job.result!.changed], [crowdSize, crowdSize]);
  const { byStatus } = await call<Counted>('count_jobs', { kind: ['command'] }, crowd);
  assert.deepEqual(byStatus, { cancelled: crowdSize });
}
