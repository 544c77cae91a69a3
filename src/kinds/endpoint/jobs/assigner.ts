// Assigns jobs to the workers that poll for them. Each endpoint has one waitlist, claims never exceed the available
// work, and a lost job never returns to the worker that lost it.
import type { Jobs } from '../../../jobs/jobs.ts';
import { queueKey } from '../../../jobs/intents.ts';
import type { Job } from '../../../jobs/job.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import type { EndpointRow, EndpointStore } from '../store/endpoints.ts';
import { drainPauseMs, type Worker } from '../workers/worker.ts';

export interface JobAssignerDeps {
  jobs: Jobs;
  store: EndpointStore;
  clock: Clock;
  log: Log;
  node: string;
  paused(endpointId: string): Promise<{ paused: boolean; limit?: number }>;
}

interface Waiter {
  worker: Worker;
  endpoint: EndpointRow;
  limit: number;
  signal: AbortSignal;
  resolve: (jobs: Job[]) => void;
  /** The poll has timed out, so its response would be lost. */
  expired: boolean;
}

interface Waitlist {
  waiters: Waiter[];
  assigning: boolean;
  again: boolean;
}

const maxWidth = 32;
const maxLookahead = 200;

export class JobAssigner {
  private readonly deps: JobAssignerDeps;
  private readonly waitlists = new Map<string, Waitlist>();
  /** Redelivered jobs, with the workers that must not get them again. A missing entry is read from the ledger. */
  private readonly lostBy = new Map<string, Set<string>>();

  constructor(deps: JobAssignerDeps) {
    this.deps = deps;
  }

  /** Waits for jobs. Returns none if the wait timed out or the worker may not take jobs anymore. */
  async take(options: {
    endpoint: EndpointRow;
    worker: Worker;
    limit: number;
    waitMs: number;
    signal: AbortSignal;
  }): Promise<Job[]> {
    const { clock } = this.deps;
    const { endpoint, worker, limit, signal } = options;
    const waitlist = this.waitlist(endpoint.id);
    const timeout = new AbortController();
    let waiter: Waiter | undefined;
    const jobs = new Promise<Job[]>((resolve) => {
      waiter = { worker, endpoint, limit, signal, resolve, expired: false };
      if (worker.state === 'ready') waitlist.waiters.push(waiter);
    });
    this.assignWaiting(endpoint.id);
    worker.openPolls += 1;
    const waitMs =
      worker.state === 'draining' ? Math.min(drainPauseMs, options.waitMs) : options.waitMs;
    const none = clock.sleep(waitMs, AbortSignal.any([signal, timeout.signal])).then(() => {
      waiter!.expired = true;
      waitlist.waiters = waitlist.waiters.filter((other) => other !== waiter);
      waiter!.resolve([]);
    });
    const taken = await jobs;
    worker.openPolls -= 1;
    worker.askedAt = clock.now();
    timeout.abort('taken');
    await none;
    return taken;
  }

  /** Jobs may be ready: assigns them to waiting workers. */
  assignWaiting(endpointId: string): void {
    const waitlist = this.waitlist(endpointId);
    waitlist.again = true;
    if (waitlist.assigning || waitlist.waiters.length === 0) return;
    waitlist.assigning = true;
    this.drain(waitlist)
      .catch((error: unknown) => this.deps.log.error('failed to assign jobs', { error }))
      .finally(() => {
        waitlist.assigning = false;
        if (waitlist.again && waitlist.waiters.length > 0) this.assignWaiting(endpointId);
      });
  }

  /** Covers changes without a notification, such as a resumed queue or a node that accepts work again. */
  assignAll(): void {
    for (const [id, { waiters }] of this.waitlists) if (waiters.length > 0) this.assignWaiting(id);
  }

  /** The worker did not receive the job. It returns to the queue in its old position. */
  async returnJob(worker: Worker, jobId: string, attemptId: string): Promise<void> {
    const { jobs, clock } = this.deps;
    worker.running.delete(jobId);
    await jobs.finish({ jobId, attemptId }, { type: 'snoozed', untilMs: clock.now() });
  }

  /** Frees the entries of jobs that ended without being taken. The others are read again when they are needed. */
  forgetLostHolders(): void {
    this.lostBy.clear();
  }

  /** Ends all polls of this worker without jobs. */
  stopWaiting(worker: Worker): void {
    const waitlist = this.waitlist(worker.endpointId);
    const gone = waitlist.waiters.filter((waiter) => waiter.worker === worker);
    waitlist.waiters = waitlist.waiters.filter((waiter) => waiter.worker !== worker);
    for (const waiter of gone) waiter.resolve([]);
  }

  private async drain(waitlist: Waitlist): Promise<void> {
    let width = 1;
    const skipped: Waiter[] = [];
    const back = (waiters: Waiter[]) =>
      waitlist.waiters.unshift(
        ...waiters.filter(({ worker, expired }) => worker.state === 'ready' && !expired),
      );
    try {
      while (waitlist.waiters.length > 0) {
        waitlist.again = false;
        const group = waitlist.waiters.splice(0, width);
        const outcomes = await Promise.all(group.map((waiter) => this.claim(waiter)));
        // A worker that must not get the waiting job does not block the next worker.
        skipped.push(...group.filter((_, i) => outcomes[i] === 'refused'));
        const empty = group.filter((_, i) => outcomes[i] === 'empty');
        back(empty);
        if (empty.length > 0 && !waitlist.again) return;
        width = empty.length === 0 ? Math.min(width * 2, maxWidth) : 1;
      }
    } finally {
      back(skipped);
    }
  }

  private async claim(waiter: Waiter): Promise<'taken' | 'empty' | 'refused'> {
    const { jobs, clock, node, paused } = this.deps;
    const { worker, endpoint, limit, signal } = waiter;
    if (signal.aborted || waiter.expired) return (waiter.resolve([]), 'taken');
    const queue = await paused(endpoint.id);
    if (queue.paused) return 'empty';
    const unknown: string[] = [];
    let lostBy = false;
    const name = queueKey('endpoint', endpoint.id);
    const taken = await jobs.claim({
      queues: [{ name, ...(queue.limit === undefined ? {} : { limit: queue.limit }) }],
      limit,
      holder: worker.id,
      node,
      leaseMs: endpoint.spec.leaseMs,
      stage: 'dispatched',
      lookahead: Math.min(this.lostBy.size, maxLookahead),
      accept: (job) => {
        const accepted = this.accepts(worker, job, unknown);
        lostBy ||= !accepted;
        return accepted;
      },
    });
    for (const jobId of unknown) await this.loadLostHolders(jobId);
    for (const job of taken) {
      worker.running.set(job.id, job.attemptId);
      this.lostBy.delete(job.id);
    }
    if (taken.length === 0 && unknown.length > 0) return this.claim(waiter);
    if (taken.length === 0) return lostBy ? 'refused' : 'empty';
    const unwanted = signal.aborted || waiter.expired;
    if (unwanted) {
      // The poll has ended, so the jobs return to the queue in their old position.
      for (const job of taken) await this.returnJob(worker, job.id, job.attemptId);
      await jobs.store.promote(clock.now());
    }
    waiter.resolve(unwanted ? [] : taken);
    return 'taken';
  }

  private accepts(worker: Worker, job: Job, unknown: string[]): boolean {
    if (job.attempt === 1) return true;
    const lostBy = this.lostBy.get(job.id);
    if (!lostBy) unknown.push(job.id);
    return lostBy !== undefined && !lostBy.has(worker.id);
  }

  private async loadLostHolders(jobId: string): Promise<void> {
    this.lostBy.set(jobId, new Set(await this.deps.store.lostHolders(jobId)));
  }

  private waitlist(endpointId: string): Waitlist {
    let waitlist = this.waitlists.get(endpointId);
    if (!waitlist) {
      waitlist = { waiters: [], assigning: false, again: false };
      this.waitlists.set(endpointId, waitlist);
    }
    return waitlist;
  }
}
