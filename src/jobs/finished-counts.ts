// Counts the jobs that ended in this process and measures how long they were queued and ran, for monitoring. Counts start
// at zero after a restart, as monitoring systems expect.
import { isFinal, queuedMs, type Job } from './job.ts';

/** Upper bounds in seconds. Longer durations fall into the last bucket, +Inf. */
export const bucketSeconds: readonly number[] = [
  0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400,
];

export interface Histogram {
  /** Number of values in each bucket. The last bucket is +Inf. */
  counts: number[];
  sumSeconds: number;
}

interface FinishedCount {
  kind: string;
  queue: string;
  status: string;
  count: number;
}

export class FinishedJobCounts {
  private readonly counted = new Map<string, FinishedCount>();
  /** By kind. */
  readonly waits = new Map<string, Histogram>();
  readonly runs = new Map<string, Histogram>();

  counts(): FinishedCount[] {
    return [...this.counted.values()];
  }

  /** Called for every job change. Returns the changed job. */
  record(before: Job, after: Job): Job {
    if (isFinal(after.status) && !isFinal(before.status)) this.add(after);
    return after;
  }

  private add(job: Job): void {
    const { kind, queue, status, startedAt, finishedAt } = job;
    const key = JSON.stringify([kind, queue, status]);
    const known = this.counted.get(key);
    if (known) known.count += 1;
    else this.counted.set(key, { kind, queue, status, count: 1 });
    if (startedAt === null) return;
    observe(this.waits, kind, queuedMs(job, startedAt));
    const { runMs } = job.facts;
    const ranMs = typeof runMs === 'number' ? runMs : (finishedAt ?? startedAt) - startedAt;
    observe(this.runs, kind, ranMs);
  }
}

function observe(histograms: Map<string, Histogram>, kind: string, ms: number): void {
  const seconds = Math.max(ms, 0) / 1000;
  let histogram = histograms.get(kind);
  if (!histogram) {
    histogram = { counts: Array<number>(bucketSeconds.length + 1).fill(0), sumSeconds: 0 };
    histograms.set(kind, histogram);
  }
  const at = bucketSeconds.findIndex((limit) => seconds <= limit);
  histogram.counts[at === -1 ? bucketSeconds.length : at]! += 1;
  histogram.sumSeconds += seconds;
}
