// Statistics over time, as counters in the transaction of the event they count: jobs submitted and ended per minute, and how
// long they waited and ran. The length of each queue is sampled. Old minutes are moved into hours and hours into days, so
// their number is bounded.
import type { Count, CounterRow, Step, Store } from '../store/store.ts';
import { isFinal, queuedMs, type Job } from './job.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

interface Level {
  name: string;
  unitMs: number;
  /** Older values are moved to the next level, or deleted. */
  keepMs: number;
}

const levels: readonly [Level, Level, Level] = [
  { name: 'm', unitMs: minuteMs, keepMs: 26 * hourMs },
  { name: 'h', unitMs: hourMs, keepMs: 33 * dayMs },
  { name: 'd', unitMs: dayMs, keepMs: 400 * dayMs },
];

/** The longest time that statistics cover. */
export const maxStatsMs = 400 * dayMs;

/** Each bucket of durations is this much wider than the one before, so a percentile is wrong by at most 5 %. */
const bucketRatio = 1.09;
const moveBatch = 200;

export interface StatsValue {
  at: number;
  kind: string;
  queue: string;
  owner: string;
  key: string;
  n: number;
}

export const submittedKey = 'submitted';
export const waitPrefix = 'wait:';
/** A sample of how many jobs were queued, as a bucket: samples of several minutes and nodes add up. */
export const queuedPrefix = 'queued:';

export const countSubmitted = (job: Job): Step[] => [countAt(job, job.createdAt, submittedKey)];

/** Counts a job when it ends: its status with the bucket of its run time, and the bucket of its wait. */
export function countEnded(before: Job, after: Job, now: number): Step[] {
  if (!isFinal(after.status) || isFinal(before.status)) return [];
  const { status, startedAt, facts } = after;
  if (startedAt === null) return [countAt(after, now, `${status}:`)];
  const runMs = typeof facts.runMs === 'number' ? facts.runMs : now - startedAt;
  return [
    countAt(after, now, `${status}:${bucketOf(runMs)}`),
    countAt(after, now, `${waitPrefix}${bucketOf(queuedMs(after, startedAt))}`),
  ];
}

/** Records how many jobs are queued now, per queue and owner. Empty queues are not recorded. */
export async function sampleQueues(store: Store, now: number): Promise<void> {
  const rows = await store.counterRange({ from: 'queue:', to: 'queue;' });
  const steps = rows.flatMap(({ scope, key, n }) => {
    const place = /^queue:([^:/]+):([^/]+)\/(.*)$/s.exec(scope);
    if (!place || key !== 'queued') return [];
    const [, kind, queue, owner] = place;
    return [
      countAt({ kind: kind!, queue: queue!, owner: owner! }, now, `${queuedPrefix}${bucketOf(n)}`),
    ];
  });
  if (steps.length > 0) await store.commit(steps);
}

function countAt(
  { kind, queue, owner }: Pick<Job, 'kind' | 'queue' | 'owner'>,
  at: number,
  key: string,
): Count {
  return { count: { scope: scopeOf(levels[0], at, `${kind}:${queue}:${owner}`), key, delta: 1 } };
}

/** Times have a fixed width, so that the order of scopes is the order of times. */
const scopeOf = (level: Level, at: number, series: string): string =>
  `${startOf(level, at)}${series}`;

const startOf = ({ name, unitMs }: Level, at: number): string =>
  `stats:${name}:${String(Math.floor(at / unitMs)).padStart(10, '0')}:`;

const bucketOf = (ms: number): number =>
  ms < 1 ? 0 : 1 + Math.floor(Math.log(ms) / Math.log(bucketRatio));

/** The middle of a bucket in ms. */
export const bucketMs = (bucket: number): number => round(middleOf(bucket));

/** The middle of a bucket of whole numbers. Exact up to 10. */
export const bucketCount = (bucket: number): number => Math.round(middleOf(bucket));

const middleOf = (bucket: number): number => (bucket <= 0 ? 0 : bucketRatio ** (bucket - 0.5));

const round = (ms: number): number => (ms < 100 ? Math.round(ms * 10) / 10 : Math.round(ms));

/** All values since a time, of every level. */
export async function readStats(store: Store, since: number): Promise<StatsValue[]> {
  const values: StatsValue[] = [];
  for (const level of levels) {
    const range = { from: startOf(level, since), to: `stats:${level.name};` };
    for (const row of await store.counterRange(range)) values.push(toValue(level, row));
  }
  return values;
}

function toValue({ unitMs }: Level, { scope, key, n }: CounterRow): StatsValue {
  const [, , time, kind, queue, ...owner] = scope.split(':');
  return {
    at: Number(time) * unitMs,
    kind: kind!,
    queue: queue!,
    owner: owner.join(':'),
    key,
    n,
  };
}

/** Moves old values to the next level. A value is in one level at any time, even after a crash, so sums stay exact. */
export async function moveOldStats(store: Store, now: number): Promise<void> {
  for (const [i, level] of levels.entries()) {
    const range = {
      from: `stats:${level.name}:`,
      to: startOf(level, now - level.keepMs),
      limit: moveBatch,
      isFolded: true,
    };
    for (;;) {
      const rows = await store.counterRange(range);
      const next = levels[i + 1];
      const steps = rows.flatMap((row) => moveSteps(level, next, row));
      // A conflict means that another node moves them.
      if (steps.length === 0 || !(await store.commit(steps)).applied) break;
    }
  }
}

function moveSteps(level: Level, next: Level | undefined, row: CounterRow): Step[] {
  const { scope, key, n } = row;
  const remove: Step = {
    sql: 'DELETE FROM counters WHERE scope = ? AND key = ? AND n = ?',
    params: [scope, key, n],
    expect: 1,
  };
  if (!next) return [remove];
  const { at, kind, queue, owner } = toValue(level, row);
  const to = scopeOf(next, at, `${kind}:${queue}:${owner}`);
  return [remove, { count: { scope: to, key, delta: n } }];
}
