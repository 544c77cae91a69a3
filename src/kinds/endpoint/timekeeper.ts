// The ends that no worker reports: cancelled, ran too long, lived too long. The job is over at once; its worker is told
// to stop, and replaced when it does not.
import type { Jobs } from '../../jobs/jobs.ts';
import type { Job } from '../../jobs/job.ts';
import type { Outcome } from '../../jobs/kind.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import type { WorkerHub } from './hub.ts';
import type { DueJob, EndpointStore } from './store.ts';

export interface TimekeeperNeeds {
  jobs: Jobs;
  hub: WorkerHub;
  store: EndpointStore;
  clock: Clock;
  log: Log;
  /** A job that ran elsewhere is to be stopped there. */
  stopRemote(jobId: string, attemptId: string): Promise<void>;
}

const everyMs = 500;
const batch = 200;
/** A gap this long between two looks is a suspend: it does not use up a job's running time. */
const gapMs = 30_000;

export class Timekeeper implements Service {
  readonly name = 'endpoint times';
  private readonly needs: TimekeeperNeeds;
  private readonly loop: Loop;
  private off = () => {};
  private lookedAt: number | undefined;
  private readonly gaps: { at: number; ms: number }[] = [];

  constructor(needs: TimekeeperNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.look() });
  }

  async start(): Promise<void> {
    const { jobs, log } = this.needs;
    this.off = jobs.onCancel((job) => {
      if (job.kind !== 'endpoint') return;
      this.cancel(job).catch((error: unknown) => log.error('a cancel failed', { error }));
    });
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.loop.stop();
  }

  private async look(): Promise<void> {
    const { clock, store } = this.needs;
    const now = clock.now();
    if (this.lookedAt !== undefined && now - this.lookedAt > gapMs)
      this.gaps.push({ at: this.lookedAt, ms: now - this.lookedAt });
    this.lookedAt = now;
    for (const due of await store.due(now, batch)) {
      const outcome = this.outcomeOf(due, now);
      if (outcome) await this.end(due, outcome);
    }
  }

  private outcomeOf(due: DueJob, now: number): Outcome | undefined {
    if (due.cancelRequestedAt !== null) return cancelled;
    if (due.expiresAt !== null && due.expiresAt <= now) return livedTooLong;
    if (due.deadlineAt === null || due.deadlineAt + this.slept(due) > now) return undefined;
    return ranTooLong;
  }

  private slept({ startedAt }: DueJob): number {
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
    const { jobs, hub, stopRemote } = this.needs;
    const { applied } = await jobs.finish({ jobId: due.id, attemptId: due.attemptId }, outcome);
    if (!applied) return;
    const worker = due.holder === null ? undefined : hub.find(due.queue, due.holder);
    if (worker) hub.stopJob(worker, due.id);
    else await stopRemote(due.id, due.attemptId);
  }
}

const cancelled: Outcome = {
  type: 'cancelled',
  error: { code: 'cancelled', message: 'Cancelled while it ran.' },
};

const ranTooLong: Outcome = {
  type: 'timed_out',
  error: {
    code: 'executionTimeout',
    message: 'It ran longer than its execution timeout and was stopped.',
    hint: 'Run it with a longer executionTimeoutMs, or raise that of the endpoint.',
  },
  retry: false,
};

const livedTooLong: Outcome = {
  type: 'timed_out',
  error: {
    code: 'ttlExceeded',
    message: 'Its time to live, counted from its submit, ended while it ran.',
    hint: 'Run it with a longer ttlMs.',
  },
  retry: false,
};
