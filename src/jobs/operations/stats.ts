// get_stats: how many jobs were submitted and ended over time, and how long they waited and ran.
import { z } from 'zod';
import { defineOperation, type Operation } from '../../operation.ts';
import { isoTime } from '../../runtime/clock.ts';
import { finalStatuses } from '../job.ts';
import { limitFilter } from '../limits.ts';
import {
  bucketCount,
  bucketMs,
  maxStatsMs,
  queuedPrefix,
  readStats,
  submittedKey,
  waitPrefix,
  type StatsValue,
} from '../stats.ts';
import type { JobOperationsDeps } from './deps.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** The step of a range: about a hundred points. Minutes are stored for 26 hours, hours for 33 days. */
const steps: readonly [maxRangeMs: number, stepMs: number][] = [
  [2 * hourMs, minuteMs],
  [10 * hourMs, 5 * minuteMs],
  [25 * hourMs, 15 * minuteMs],
  [8 * dayMs, 2 * hourMs],
  [32 * dayMs, 6 * hourMs],
  [maxStatsMs, dayMs],
];

const percentiles = z.object({ p50: z.number(), p95: z.number() });
const point = z.object({
  at: z.string().describe('Start of the step'),
  submitted: z.number(),
  completed: z.number(),
  failed: z.number(),
  cancelled: z.number(),
  timedOut: z.number(),
  queued: z
    .number()
    .describe('Most jobs that were queued, sampled once per minute; within 5 %, exact up to 10'),
  queuedMs: percentiles.optional().describe('Wait of the jobs that ended, within 5 %'),
  runMs: percentiles.optional().describe('Run time of the jobs that ended, within 5 %'),
});
type Point = z.infer<typeof point>;
const seriesShape = z.object({
  kind: z.string(),
  queue: z.string(),
  queuedMs: percentiles.optional().describe('Wait over the whole range'),
  runMs: percentiles.optional().describe('Run time over the whole range'),
  points: z.array(point),
});
const statsOutput = z.object({
  stepMs: z.number(),
  from: z.string(),
  to: z.string(),
  series: z.array(seriesShape),
});

export function getStats({ jobs, clock }: Pick<JobOperationsDeps, 'jobs' | 'clock'>): Operation {
  return defineOperation({
    name: 'get_stats',
    title: 'Get statistics',
    description:
      'Shows per kind and queue how many jobs were submitted, completed, failed, cancelled and timed out in each step of a time range, how many were queued, and the median and 95th percentile of their wait and run times. Use it to see throughput and failures; for single jobs use list_jobs. Steps without jobs are omitted. Read-only.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues'] },
    toolsets: ['jobs'],
    input: z.object({
      rangeMs: z
        .number()
        .int()
        .min(minuteMs)
        .max(maxStatsMs)
        .default(hourMs)
        .describe('Length of the range until now in ms; default one hour'),
      kind: z.string().max(40).optional().describe('Only this kind'),
      queue: z.string().max(100).optional().describe('Only this queue'),
    }),
    output: statsOutput,
    http: { method: 'GET', path: '/api/stats' },
    cli: {
      words: ['stats'],
      summary: 'how many jobs ended and how; --json adds times and steps',
      text: (output) => statsText(output as z.infer<typeof statsOutput>),
    },
    run: async ({ rangeMs, kind, queue }, { caller }) => {
      if (kind !== undefined) jobs.kind(kind);
      const stepMs = steps.find(([max]) => rangeMs <= max)![1];
      const now = clock.now();
      const from = Math.floor((now - rangeMs) / stepMs) * stepMs;
      const limits = limitFilter(jobs, caller!, kind === undefined ? undefined : [kind]);
      const isShown = (value: StatsValue) =>
        value.at >= from &&
        (caller!.admin || value.owner === caller!.owner) &&
        (limits.kinds === undefined || limits.kinds.includes(value.kind)) &&
        (limits.queues === undefined || limits.queues.includes(value.queue)) &&
        (queue === undefined || value.queue === queue);
      const values = (await readStats(jobs.store, from)).filter(isShown);
      const bySeries = Map.groupBy(values, (value) => `${value.kind}:${value.queue}`);
      return {
        stepMs,
        from: isoTime(from),
        to: isoTime(now),
        series: [...bySeries.values()].map((own) => ({
          kind: own[0]!.kind,
          queue: own[0]!.queue,
          ...durationsOf(own),
          points: toPoints(own, stepMs),
        })),
      };
    },
  });
}

function statsText({ from, to, series }: z.infer<typeof statsOutput>): string {
  return [`${from} to ${to}`, ...series.map(totalsText)].join('\n');
}

/** `command, queue default: 12 submitted, 11 completed, 1 failed, at most 3 queued` */
function totalsText({ kind, queue, points }: z.infer<typeof seriesShape>): string {
  const counted = ['submitted', 'completed', 'failed', 'cancelled', 'timedOut'] as const;
  const counts = counted.flatMap((name) => {
    const n = points.reduce((sum, one) => sum + one[name], 0);
    return n > 0 ? [`${n} ${name === 'timedOut' ? 'timed out' : name}`] : [];
  });
  // A queue may have only waiting jobs in this range.
  const queued = Math.max(...points.map((one) => one.queued));
  const most = queued > 0 ? [`at most ${queued} queued`] : [];
  return `${kind}, queue ${queue}: ${[...counts, ...most].join(', ')}`;
}

function durationsOf(values: readonly StatsValue[]): Pick<Point, 'queuedMs' | 'runMs'> {
  const { queuedMs, runMs } = toPoint(0, values);
  return { ...(queuedMs ? { queuedMs } : {}), ...(runMs ? { runMs } : {}) };
}

function toPoints(values: readonly StatsValue[], stepMs: number): Point[] {
  const byStep = Map.groupBy(values, ({ at }) => Math.floor(at / stepMs) * stepMs);
  return [...byStep].toSorted(([a], [b]) => a - b).map(([at, own]) => toPoint(at, own));
}

function toPoint(at: number, values: readonly StatsValue[]): Point {
  const counts = new Map<string, number>();
  const waits = new Map<number, number>();
  const runs = new Map<number, number>();
  for (const { key, n } of values) {
    if (key.startsWith(queuedPrefix)) continue;
    const [name, bucket] = key.split(':');
    const isWait = key.startsWith(waitPrefix);
    if (!isWait) add(counts, name!, n);
    if (bucket !== undefined && bucket !== '') add(isWait ? waits : runs, Number(bucket), n);
  }
  const [completed, failed, cancelled, timedOut] = finalStatuses.map(
    (status) => counts.get(status) ?? 0,
  ) as [number, number, number, number];
  return {
    at: isoTime(at),
    submitted: counts.get(submittedKey) ?? 0,
    completed,
    failed,
    cancelled,
    timedOut,
    queued: mostQueued(values),
    ...(waits.size > 0 ? { queuedMs: percentilesOf(waits) } : {}),
    ...(runs.size > 0 ? { runMs: percentilesOf(runs) } : {}),
  };
}

/** Owners are sampled separately: the sum of their maxima. */
function mostQueued(values: readonly StatsValue[]): number {
  const byOwner = new Map<string, number>();
  for (const { key, owner } of values) {
    if (!key.startsWith(queuedPrefix)) continue;
    const n = bucketCount(Number(key.slice(queuedPrefix.length)));
    byOwner.set(owner, Math.max(byOwner.get(owner) ?? 0, n));
  }
  return [...byOwner.values()].reduce((sum, n) => sum + n, 0);
}

function add<K>(map: Map<K, number>, key: K, n: number): void {
  map.set(key, (map.get(key) ?? 0) + n);
}

function percentilesOf(buckets: ReadonlyMap<number, number>): { p50: number; p95: number } {
  const sorted = [...buckets].toSorted(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, n]) => sum + n, 0);
  const at = (share: number) => {
    let seen = 0;
    for (const [bucket, n] of sorted) {
      seen += n;
      if (seen >= share * total) return bucketMs(bucket);
    }
    return 0;
  };
  return { p50: at(0.5), p95: at(0.95) };
}
