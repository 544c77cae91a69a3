// Waiting for jobs: until they are over, or until a condition of their kind is met (text, port, silence …). A timeout is
// an answer, not an error, and an abort only stops the waiting: the jobs go on.
import { aborted, type Clock } from '../runtime/clock.ts';
import type { EventFeed } from './events.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';

export interface WaitRequest {
  ids: readonly string[];
  mode: 'any' | 'all';
  /** Conditions a kind knows beyond the end; none: wait for the end. */
  until?: Record<string, unknown>;
  timeoutMs: number;
  signal: AbortSignal;
}

export interface WaitAnswer {
  /** Jobs whose end or condition was reached, with what it was. */
  reached: Map<string, { reason: string; detail?: unknown }>;
  timedOut: boolean;
}

export class Waiting {
  private readonly jobs: Jobs;
  private readonly feed: EventFeed;
  private readonly clock: Clock;

  constructor(jobs: Jobs, feed: EventFeed, clock: Clock) {
    this.jobs = jobs;
    this.feed = feed;
    this.clock = clock;
  }

  async wait(request: WaitRequest): Promise<WaitAnswer> {
    const stop = new AbortController();
    const signal = AbortSignal.any([request.signal, stop.signal]);
    const reached: WaitAnswer['reached'] = new Map();
    const enough = () =>
      request.mode === 'any' ? reached.size > 0 : reached.size === request.ids.length;
    // One look always, however short the time: what is over already is reached.
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

  /** Resolves when the job is over. */
  async ended(id: string, signal: AbortSignal): Promise<Job | undefined> {
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
    const end = this.ended(id, signal).then((job) => job && { reason: job.status });
    if (!until || Object.keys(until).length === 0) return end;
    const job = await this.jobs.get(id);
    const kind = this.jobs.findKind(job.kind);
    if (!kind?.watch || isFinal(job.status)) return end;
    return Promise.race([end, kind.watch(job, until, signal)]);
  }
}
