// The sweep: what time alone changes. Promotes due attempts, declares lost ones, ends jobs that waited too long, goes on
// with dependencies a crash interrupted, forgets old jobs. Several nodes may sweep at once: every step is fenced.
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { Jobs } from './jobs.ts';
import type { Retention } from './retention.ts';

export interface MaintenanceOptions {
  jobs: Jobs;
  clock: Clock;
  log: Log;
  leaseMs: number;
  sweepMs: number;
  retention: Retention;
}

const batch = 200;

export class Maintenance implements Service {
  readonly name = 'maintenance';
  private readonly options: MaintenanceOptions;
  private readonly loop: Loop;
  private lastSweepAt: number | undefined;
  private lastRetentionAt = 0;
  private cancelDue: (() => void) | undefined;

  constructor(options: MaintenanceOptions) {
    this.options = options;
    const { clock, log, sweepMs } = options;
    this.loop = new Loop({ name: 'sweep', everyMs: sweepMs, clock, log, run: () => this.sweep() });
  }

  async start(): Promise<void> {
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.cancelDue?.();
    await this.loop.stop();
  }

  async sweep(): Promise<void> {
    const { jobs, clock, leaseMs, sweepMs } = this.options;
    const now = clock.now();
    // After a suspend or an outage nobody could send a heartbeat: every holder gets a fresh lease first. Holders beat
    // every third of a lease, so half a lease without a sweep could already cost one its lease.
    const before = jobs.store.swept ? await jobs.store.swept(now) : this.lastSweepAt;
    const gap = before === undefined ? Infinity : now - before;
    if (gap > Math.max(leaseMs / 2, 3 * sweepMs)) await jobs.store.renewAll(now + leaseMs);
    this.lastSweepAt = now;
    await this.promote(now);
    for (const lost of await jobs.store.lost(now, batch))
      await this.attempt(lost.jobId, () => this.lose(lost));
    // Together, in one commit: while they wait, they stand before those that may still run.
    const expired = await jobs.ledger.expiredIds(now, batch);
    await Promise.all(expired.map((id) => this.attempt(id, () => jobs.expire(id))));
    if (expired.length === batch) this.loop.wake();
    for (const one of await jobs.ledger.endedDependencies(batch)) {
      const after = { id: one.afterId, status: one.status };
      await this.attempt(one.jobId, () => jobs.dependencyEnded(one.jobId, after));
    }
    if (now - this.lastRetentionAt >= this.options.retention.everyMs) {
      this.lastRetentionAt = now;
      await this.options.retention.prune();
    }
  }

  /** One job that cannot be moved must not keep the sweep from the others. */
  private async attempt(jobId: string, move: () => Promise<void>): Promise<void> {
    try {
      await move();
    } catch (error) {
      this.options.log.error('the sweep could not move a job', { jobId, error });
    }
  }

  private async promote(now: number): Promise<void> {
    const { jobs, clock, sweepMs } = this.options;
    const { nextAt } = await jobs.store.promote(now);
    this.cancelDue?.();
    // A delay shorter than the next sweep is kept to the millisecond.
    if (nextAt !== undefined && nextAt - now < sweepMs) {
      this.cancelDue = clock.after(nextAt - now, () => this.loop.wake());
    }
  }

  private async lose(lost: { attemptId: string; jobId: string }): Promise<void> {
    const { jobs } = this.options;
    const job = await jobs.ledger.find(lost.jobId);
    const entry = [{ dispatch: 'withdraw', attemptId: lost.attemptId } as const];
    // An entry whose job moved on, or is gone, is only litter.
    if (!job || job.attemptId !== lost.attemptId) {
      await jobs.store.commit(entry);
      return;
    }
    const { applied } = await jobs.lose(lost);
    if (!applied) await jobs.store.commit(entry);
  }
}
