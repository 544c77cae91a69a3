// The periodic sweep. It promotes due attempts, detects lost attempts, ends expired jobs, completes dependency updates that
// a crash interrupted, and prunes old jobs. Several nodes may sweep concurrently, because every step is fenced.
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { Jobs } from './jobs.ts';
import type { Retention } from './retention.ts';
import { moveOldStats, sampleQueues } from './stats.ts';

interface MaintenanceOptions {
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
    // After a suspend or an outage no holder could send heartbeats, so every lease is renewed first. Holders send a
    // heartbeat every third of a lease, so half a lease without a sweep can already expire a lease.
    const before = jobs.store.recordSweep ? await jobs.store.recordSweep(now) : this.lastSweepAt;
    const gap = before === undefined ? Infinity : now - before;
    if (gap > Math.max(leaseMs / 2, 3 * sweepMs)) await jobs.store.renewLeases(now + leaseMs);
    this.lastSweepAt = now;
    await this.promote(now);
    for (const lost of await jobs.store.lostAttempts(now, batch))
      await this.tryUpdate(lost.jobId, () => this.lose(lost));
    // In parallel, so that they share a commit: until they end, they block the jobs behind them.
    const expired = await jobs.ledger.expiredIds(now, batch);
    await Promise.all(expired.map((id) => this.tryUpdate(id, () => jobs.expire(id))));
    if (expired.length === batch) this.loop.wake();
    for (const one of await jobs.ledger.endedDependencies(batch)) {
      const after = { id: one.afterId, status: one.status };
      await this.tryUpdate(one.jobId, () => jobs.dependencyEnded(one.jobId, after));
    }
    if (now - this.lastRetentionAt >= this.options.retention.everyMs) {
      this.lastRetentionAt = now;
      await this.options.retention.prune();
      await sampleQueues(jobs.store, now);
      await moveOldStats(jobs.store, now);
    }
  }

  /** A failure for one job must not stop the sweep. */
  private async tryUpdate(jobId: string, update: () => Promise<void>): Promise<void> {
    try {
      await update();
    } catch (error) {
      this.options.log.error('the sweep failed to update a job', { jobId, error });
    }
  }

  private async promote(now: number): Promise<void> {
    const { jobs, clock, sweepMs } = this.options;
    const { nextAt } = await jobs.store.promote(now);
    this.cancelDue?.();
    // An attempt that is due before the next sweep is promoted on time.
    if (nextAt !== undefined && nextAt - now < sweepMs) {
      this.cancelDue = clock.after(nextAt - now, () => this.loop.wake());
    }
  }

  private async lose(lost: { attemptId: string; jobId: string }): Promise<void> {
    const { jobs } = this.options;
    const job = await jobs.ledger.find(lost.jobId);
    const entry = [{ dispatch: 'withdraw', attemptId: lost.attemptId } as const];
    // The entry is obsolete if its job was deleted or has a newer attempt.
    if (!job || job.attemptId !== lost.attemptId) {
      await jobs.store.commit(entry);
      return;
    }
    const { applied } = await jobs.lose(lost);
    if (!applied) await jobs.store.commit(entry);
  }
}
