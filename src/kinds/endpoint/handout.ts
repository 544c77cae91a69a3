// Hands work to the workers that wait for it: one line of waiters per endpoint, never more claims than there is work, and
// a job that was lost never goes to the worker that lost it.
import type { Jobs } from '../../jobs/jobs.ts';
import { queueKey } from '../../jobs/intents.ts';
import type { Job } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { EndpointRow, EndpointStore } from './store.ts';
import type { Worker } from './worker.ts';

export interface HandoutNeeds {
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
  done: (jobs: Job[]) => void;
  /** Its time was up: nobody takes an answer any more. */
  over: boolean;
}

interface Line {
  waiters: Waiter[];
  pumping: boolean;
  again: boolean;
}

const widthMax = 32;
const lookaheadMax = 200;

export class Handout {
  private readonly needs: HandoutNeeds;
  private readonly lines = new Map<string, Line>();
  /** Jobs that were handed out before, with the workers that must not get them again. */
  private readonly refused = new Map<string, Set<string>>();

  constructor(needs: HandoutNeeds) {
    this.needs = needs;
  }

  /** Waits for work. Empty: none came in time, or this worker gets none any more. */
  async take(wish: {
    endpoint: EndpointRow;
    worker: Worker;
    limit: number;
    waitMs: number;
    signal: AbortSignal;
  }): Promise<Job[]> {
    const { clock } = this.needs;
    const { endpoint, worker, limit, signal } = wish;
    const line = this.line(endpoint.id);
    const timeout = new AbortController();
    let waiter: Waiter | undefined;
    const jobs = new Promise<Job[]>((done) => {
      waiter = { worker, endpoint, limit, signal, done, over: false };
      if (worker.state === 'ready') line.waiters.push(waiter);
    });
    this.pump(endpoint.id);
    const none = clock.sleep(wish.waitMs, AbortSignal.any([signal, timeout.signal])).then(() => {
      waiter!.over = true;
      line.waiters = line.waiters.filter((other) => other !== waiter);
      waiter!.done([]);
    });
    const taken = await jobs;
    timeout.abort('taken');
    await none;
    return taken;
  }

  /** Work may have come: hands it to those who wait, never more claims than there is work. */
  pump(endpointId: string): void {
    const line = this.line(endpointId);
    line.again = true;
    if (line.pumping || line.waiters.length === 0) return;
    line.pumping = true;
    this.drain(line)
      .catch((error: unknown) => this.needs.log.error('handing out work failed', { error }))
      .finally(() => {
        line.pumping = false;
        if (line.again && line.waiters.length > 0) this.pump(endpointId);
      });
  }

  /** Whoever waits is looked after, whatever let the work come: a queue resumed, a node that takes work again. */
  pumpAll(): void {
    for (const [id, { waiters }] of this.lines) if (waiters.length > 0) this.pump(id);
  }

  /** The worker does not have it after all: it waits again as if it had never left. */
  async giveBack(worker: Worker, jobId: string, attemptId: string): Promise<void> {
    const { jobs, clock } = this.needs;
    worker.running.delete(jobId);
    await jobs.finish({ jobId, attemptId }, { type: 'snoozed', untilMs: clock.now() });
  }

  /** The job is over: nobody needs to know any more who lost it. */
  forgetJob(jobId: string): void {
    this.refused.delete(jobId);
  }

  /** Whoever waits for this worker gets nothing any more. */
  dismiss(worker: Worker): void {
    const line = this.line(worker.endpointId);
    const gone = line.waiters.filter((waiter) => waiter.worker === worker);
    line.waiters = line.waiters.filter((waiter) => waiter.worker !== worker);
    for (const waiter of gone) waiter.done([]);
  }

  private async drain(line: Line): Promise<void> {
    let width = 1;
    const skipped: Waiter[] = [];
    const back = (waiters: Waiter[]) =>
      line.waiters.unshift(
        ...waiters.filter(({ worker, over }) => worker.state === 'ready' && !over),
      );
    try {
      while (line.waiters.length > 0) {
        line.again = false;
        const group = line.waiters.splice(0, width);
        const answers = await Promise.all(group.map((waiter) => this.claim(waiter)));
        // A worker that must not get what waits does not stand in the way of the next one.
        skipped.push(...group.filter((_, i) => answers[i] === 'refused'));
        const empty = group.filter((_, i) => answers[i] === 'empty');
        back(empty);
        if (empty.length > 0 && !line.again) return;
        width = empty.length === 0 ? Math.min(width * 2, widthMax) : 1;
      }
    } finally {
      back(skipped);
    }
  }

  private async claim(waiter: Waiter): Promise<'taken' | 'empty' | 'refused'> {
    const { jobs, clock, node, paused } = this.needs;
    const { worker, endpoint, limit, signal } = waiter;
    if (signal.aborted || waiter.over) return (waiter.done([]), 'taken');
    const queue = await paused(endpoint.id);
    if (queue.paused) return 'empty';
    const unknown: string[] = [];
    let refused = false;
    const name = queueKey('endpoint', endpoint.id);
    const taken = await jobs.claim({
      queues: [{ name, ...(queue.limit === undefined ? {} : { limit: queue.limit }) }],
      limit,
      holder: worker.id,
      node,
      leaseMs: endpoint.spec.leaseMs,
      stage: 'dispatched',
      lookahead: Math.min(this.refused.size, lookaheadMax),
      accept: (job) => {
        const accepted = this.accepts(worker, job, unknown);
        refused ||= !accepted;
        return accepted;
      },
    });
    for (const jobId of unknown) await this.learn(jobId);
    for (const job of taken) {
      worker.running.set(job.id, job.attemptId);
      this.refused.delete(job.id);
    }
    if (taken.length === 0 && unknown.length > 0) return this.claim(waiter);
    if (taken.length === 0) return refused ? 'refused' : 'empty';
    const unwanted = signal.aborted || waiter.over;
    if (unwanted) {
      // Nobody is there to take the answer: the jobs go back as if they had never left.
      for (const job of taken) await this.giveBack(worker, job.id, job.attemptId);
      await jobs.store.promote(clock.now());
    }
    waiter.done(unwanted ? [] : taken);
    return 'taken';
  }

  private accepts(worker: Worker, job: Job, unknown: string[]): boolean {
    if (job.attempt === 1) return true;
    const refused = this.refused.get(job.id);
    if (!refused) unknown.push(job.id);
    return refused !== undefined && !refused.has(worker.id);
  }

  private async learn(jobId: string): Promise<void> {
    this.refused.set(jobId, new Set(await this.needs.store.lostHolders(jobId)));
  }

  private line(endpointId: string): Line {
    let line = this.lines.get(endpointId);
    if (!line) {
      line = { waiters: [], pumping: false, again: false };
      this.lines.set(endpointId, line);
    }
    return line;
  }
}
