// Ends jobs for reasons that no worker reports: cancelled, execution timeout, TTL. The job ends immediately. Its
// worker is asked to stop it, and is replaced if it does not.
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Job } from '../../../jobs/job.ts';
import type { Outcome } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { WorkerRegistry } from '../workers/registry.ts';
import type { DueJob, EndpointStore } from '../store/endpoints.ts';

interface DeadlineSweeperDeps {
  jobs: Jobs;
  registry: WorkerRegistry;
  store: EndpointStore;
  clock: Clock;
  log: Log;
  /** Stops a job that runs on a remote. */
  stopRemote(jobId: string, attemptId: string): Promise<void>;
}

const everyMs = 500;
const batch = 200;
/**
 * A gap this long between two sweeps means that the machine was suspended. It does not count towards a job's
 * running time.
 */
const gapMs = 30_000;

export class DeadlineSweeper implements Service {
  readonly name = 'endpoint deadlines';
  private readonly deps: DeadlineSweeperDeps;
  private readonly loop: Loop;
  private off = () => {};
  private sweptAt: number | undefined;
  private readonly gaps: { at: number; ms: number }[] = [];

  constructor(deps: DeadlineSweeperDeps) {
    this.deps = deps;
    const { clock, log } = deps;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.sweep() });
  }

  async start(): Promise<void> {
    const { jobs, log } = this.deps;
    this.off = jobs.onCancel((job) => {
      if (job.kind !== 'endpoint') return;
      this.cancel(job).catch((error: unknown) => log.error('failed to cancel a job', { error }));
    });
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.loop.stop();
  }

  private async sweep(): Promise<void> {
    const { clock, store } = this.deps;
    const now = clock.now();
    if (this.sweptAt !== undefined && now - this.sweptAt > gapMs)
      this.gaps.push({ at: this.sweptAt, ms: now - this.sweptAt });
    this.sweptAt = now;
    for (const due of await store.due(now, batch)) {
      const outcome = this.outcomeOf(due, now);
      if (outcome) await this.end(due, outcome);
    }
  }

  private outcomeOf(due: DueJob, now: number): Outcome | undefined {
    if (due.cancelRequestedAt !== null) return cancelled;
    if (due.expiresAt !== null && due.expiresAt <= now) return ttlExceeded;
    if (due.deadlineAt === null || due.deadlineAt + this.suspendedMs(due) > now) return undefined;
    return executionTimedOut;
  }

  private suspendedMs({ startedAt }: DueJob): number {
    let ms = 0;
    for (const gap of this.gaps) if (gap.at >= (startedAt ?? 0)) ms += gap.ms;
    return ms;
  }

  private cancel(job: Job): Promise<void> {
    const { id, attemptId, queue, holder } = job;
    return this.end({ id, attemptId, queue, holder }, cancelled);
  }

  private async end(
    due: Pick<DueJob, 'id' | 'attemptId' | 'queue' | 'holder'>,
    outcome: Outcome,
  ): Promise<void> {
    const { jobs, registry, stopRemote } = this.deps;
    const { applied } = await jobs.finish({ jobId: due.id, attemptId: due.attemptId }, outcome);
    if (!applied) return;
    const worker = due.holder === null ? undefined : registry.find(due.queue, due.holder);
    if (worker) registry.stopJob(worker, due.id);
    else await stopRemote(due.id, due.attemptId);
  }
}

const cancelled: Outcome = {
  type: 'cancelled',
  error: { code: 'cancelled', message: 'The job was cancelled while it was running.' },
};

const executionTimedOut: Outcome = {
  type: 'timed_out',
  error: {
    code: 'executionTimeout',
    message: 'The job exceeded its execution timeout and was stopped.',
    hint: 'Run it with a longer executionTimeoutMs, or raise executionTimeoutMs of the endpoint.',
  },
  retry: false,
};

const ttlExceeded: Outcome = {
  type: 'timed_out',
  error: {
    code: 'ttlExceeded',
    message:
      'The time to live of the job, counted from its submission, ended while it was running.',
    hint: 'Run it with a longer ttlMs.',
  },
  retry: false,
};
