// Waits until jobs end or a condition of their kind is met (text, port, silence …). A timeout is a result, not an error.
// An abort stops only the wait; the jobs continue.
import { aborted, type Clock } from '../runtime/clock.ts';
import type { EventFeed } from './events.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';

interface WaitRequest {
  ids: readonly string[];
  mode: 'any' | 'all';
  /** Conditions of the kind. Without them, the wait is for the end of the job. */
  until?: Record<string, unknown>;
  timeoutMs: number;
  signal: AbortSignal;
}

interface WaitResult {
  /** Jobs that ended or met a condition, with the reason. */
  reached: Map<string, { reason: string; detail?: unknown }>;
  timedOut: boolean;
}

export class JobWaiter {
  private readonly jobs: Jobs;
  private readonly feed: EventFeed;
  private readonly clock: Clock;

  constructor(jobs: Jobs, feed: EventFeed, clock: Clock) {
    this.jobs = jobs;
    this.feed = feed;
    this.clock = clock;
  }

  async wait(request: WaitRequest): Promise<WaitResult> {
    const stop = new AbortController();
    const signal = AbortSignal.any([request.signal, stop.signal]);
    const reached: WaitResult['reached'] = new Map();
    const enough = () =>
      request.mode === 'any' ? reached.size > 0 : reached.size === request.ids.length;
    // Even with a timeout of 0, jobs that have already ended count as reached.
    for (const { id, status } of await this.jobs.ledger.findMany(request.ids))
      if (isFinal(status)) reached.set(id, { reason: status });
    if (enough()) return { reached, timedOut: false };
    const open = request.ids.filter((id) => !reached.has(id));
    const each = open.map(async (id) => {
      const hit = await this.one(id, request.until, signal);
      if (hit && !signal.aborted) reached.set(id, hit);
      if (enough()) stop.abort('enough');
    });
    await Promise.race([Promise.all(each), this.clock.sleep(request.timeoutMs, signal)]);
    stop.abort('enough');
    return { reached, timedOut: !enough() };
  }

  /** Resolves with the ended job, or undefined after an abort. */
  async waitForEnd(id: string, signal: AbortSignal): Promise<Job | undefined> {
    let wake = () => {};
    const gone = aborted(signal);
    const off = await this.feed.subscribe(() => wake(), id);
    try {
      for (;;) {
        const changed = new Promise<void>((resolve) => (wake = resolve));
        const job = await this.jobs.get(id);
        if (isFinal(job.status)) return job;
        await Promise.race([changed, gone]);
        if (signal.aborted) return undefined;
      }
    } finally {
      off();
    }
  }

  private async one(
    id: string,
    until: WaitRequest['until'],
    signal: AbortSignal,
  ): Promise<{ reason: string; detail?: unknown } | undefined> {
    const end = this.waitForEnd(id, signal).then((job) => job && { reason: job.status });
    if (!until || Object.keys(until).length === 0) return end;
    const job = await this.jobs.get(id);
    const kind = this.jobs.findKind(job.kind);
    if (!kind?.watch || isFinal(job.status)) return end;
    return Promise.race([end, kind.watch(job, until, signal)]);
  }
}
