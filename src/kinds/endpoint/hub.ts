// The workers that talk to this server, and what they hold: who waits for work, who must be told to stop, who is alive.
// Workers' posts carry no attempt id, so a worker that may still post for an old attempt never gets the next one.
import type { Jobs } from '../../jobs/jobs.ts';
import { queueKey } from '../../jobs/decide.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type {
  EndpointRow,
  EndpointStore,
  WorkerName,
  WorkerOrigin,
  WorkerRow,
  WorkerState,
} from './store.ts';

export interface Worker {
  id: string;
  endpointId: string;
  origin: WorkerOrigin;
  version: number;
  state: WorkerState;
  createdAt: number;
  readyAt: number | null;
  seenAt: number | null;
  /** When it last began to have nothing to do. */
  idleSince: number;
  /** Job → attempt, as handed out. */
  running: Map<string, string>;
  acknowledged: Set<string>;
  /** Job → when it was to be told to stop; gone once the worker no longer names the job. */
  stopping: Map<string, number>;
  toTell: Set<string>;
  tell: () => void;
  /** Said by the worker itself: a failed fitness check. */
  unhealthy: string | undefined;
  savedAt: number;
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

/** How often the last sign of life of an external worker is written down. */
const saveSeenMs = 10_000;
const widthMax = 32;
const lookaheadMax = 200;

export interface HubNeeds {
  jobs: Jobs;
  store: EndpointStore;
  clock: Clock;
  log: Log;
  node: string;
  paused(endpointId: string): Promise<{ paused: boolean; limit?: number }>;
}

export class WorkerHub {
  readonly workers = new Map<string, Worker>();
  private readonly needs: HubNeeds;
  private readonly lines = new Map<string, Line>();
  /** Jobs that were handed out before, with the workers that must not get them again. */
  private readonly refused = new Map<string, Set<string>>();
  private readonly changeListeners = new Set<(worker: Worker) => void>();

  constructor(needs: HubNeeds) {
    this.needs = needs;
  }

  /** After a restart: the workers as the ledger has them, with what they hold. */
  async load(): Promise<void> {
    const { jobs, store } = this.needs;
    // One that called before we came this far is known already.
    for (const row of await store.liveWorkers()) if (!this.workers.has(keyOf(row))) this.add(row);
    for (const job of await jobs.ledger.running({ kinds: ['endpoint'] })) {
      const worker = job.holder === null ? undefined : this.find(job.queue, job.holder);
      worker?.running.set(job.id, job.attemptId);
      if (job.stage === 'acknowledged') worker?.acknowledged.add(job.id);
    }
  }

  find(endpointId: string, workerId: string): Worker | undefined {
    return this.workers.get(keyOf({ endpointId, id: workerId }));
  }

  of(endpointId: string): Worker[] {
    return [...this.workers.values()].filter((worker) => worker.endpointId === endpointId);
  }

  /** Called when a worker became ready, idle or gone. */
  onChange(listener: (worker: Worker) => void): () => void {
    this.changeListeners.add(listener);
    return () => this.changeListeners.delete(listener);
  }

  add(row: WorkerRow): Worker {
    const worker = workerOf(row);
    this.workers.set(keyOf(row), worker);
    return worker;
  }

  /** The worker that calls; one nobody knows yet is an external one and joins. */
  async join(endpoint: EndpointRow, workerId: string): Promise<Worker> {
    const { clock, store } = this.needs;
    const now = clock.now();
    const name = { endpointId: endpoint.id, id: workerId };
    let worker = this.workers.get(keyOf(name));
    if (!worker) {
      const row = externalRow(endpoint, workerId, now);
      const known = await store.worker(name);
      // A process of ours that was given up: it may call, it gets nothing.
      if (known && known.endedAt !== null && known.origin !== 'external')
        return { ...workerOf({ ...row, state: 'ended' }), seenAt: now };
      const back = known && known.endedAt !== null;
      if (!known || back)
        await store.store.commit(back ? store.reviveWorker(name, now) : store.insertWorker(row));
      worker = this.workers.get(keyOf(name)) ?? this.add(known && !back ? known : row);
    }
    await this.seen(worker, now);
    return worker;
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
    timeout.abort();
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

  /** What the worker does not run although it was given to it never reached it: it goes back at once. */
  async reconcile(worker: Worker, running: ReadonlySet<string>): Promise<void> {
    const { jobs, clock } = this.needs;
    const missing = [...worker.running].filter(([id]) => !running.has(id));
    if (missing.length === 0) return;
    for (const [id, attemptId] of missing) await this.giveBack(worker, id, attemptId);
    await jobs.store.promote(clock.now());
  }

  private async giveBack(worker: Worker, jobId: string, attemptId: string): Promise<void> {
    const { jobs, clock } = this.needs;
    worker.running.delete(jobId);
    await jobs.finish({ jobId, attemptId }, { type: 'snoozed', untilMs: clock.now() });
  }

  /** The attempt this worker holds of this job; undefined when it holds none (any more). */
  async held(worker: Worker, jobId: string): Promise<string | undefined> {
    const known = worker.running.get(jobId);
    if (known) return known;
    const job = await this.needs.jobs.ledger.find(jobId);
    if (!job || job.kind !== 'endpoint' || job.queue !== worker.endpointId) return undefined;
    if (isFinal(job.status) || job.status === 'queued' || job.holder !== worker.id)
      return undefined;
    worker.running.set(job.id, job.attemptId);
    return job.attemptId;
  }

  /** The worker is through with a job, however. */
  release(worker: Worker, jobId: string): void {
    worker.running.delete(jobId);
    worker.acknowledged.delete(jobId);
    worker.stopping.delete(jobId);
    worker.toTell.delete(jobId);
    if (worker.running.size === 0) worker.idleSince = this.needs.clock.now();
    this.changed(worker);
  }

  /** The job is over for us; the worker may still be at it: it is told. */
  stopJob(worker: Worker, jobId: string): void {
    worker.running.delete(jobId);
    worker.acknowledged.delete(jobId);
    if (!worker.stopping.has(jobId)) worker.stopping.set(jobId, this.needs.clock.now());
    worker.toTell.add(jobId);
    worker.tell();
    this.changed(worker);
  }

  /** Long poll of a worker for jobs it must stop. */
  async stops(worker: Worker, waitMs: number, signal: AbortSignal): Promise<string[]> {
    if (worker.toTell.size === 0) {
      const told = new AbortController();
      worker.tell = () => told.abort();
      await this.needs.clock.sleep(waitMs, AbortSignal.any([signal, told.signal]));
      worker.tell = () => {};
    }
    if (signal.aborted) return [];
    const ids = [...worker.toTell];
    worker.toTell.clear();
    return ids;
  }

  /** A sign of life with the jobs the worker says it runs. */
  async ping(worker: Worker, endpoint: EndpointRow, jobIds: readonly string[]): Promise<void> {
    const named = new Set(jobIds);
    for (const id of worker.stopping.keys())
      if (!named.has(id)) {
        worker.stopping.delete(id);
        worker.toTell.delete(id);
      }
    const attempts = new Map<string, string>();
    for (const id of named) {
      const attemptId = await this.held(worker, id);
      if (attemptId) attempts.set(id, attemptId);
      else if (!worker.stopping.has(id)) this.stopJob(worker, id);
    }
    if (attempts.size === 0) return;
    await this.extend(worker, endpoint, attempts);
    for (const [id, attemptId] of attempts) await this.acknowledge(worker, id, attemptId);
  }

  /** The attempts live on; those that are not the worker's any more are stopped. */
  async extend(
    worker: Worker,
    endpoint: EndpointRow,
    attempts: ReadonlyMap<string, string>,
  ): Promise<void> {
    const { jobs, clock } = this.needs;
    const until = clock.now() + endpoint.spec.leaseMs;
    const held = await jobs.store.heartbeat([...attempts.values()], worker.id, until);
    for (const [id, attemptId] of attempts)
      if (!held.has(attemptId) && worker.running.get(id) === attemptId) this.stopJob(worker, id);
  }

  async acknowledge(worker: Worker, jobId: string, attemptId: string): Promise<void> {
    if (worker.acknowledged.has(jobId)) return;
    worker.acknowledged.add(jobId);
    await this.needs.jobs.bring(jobId, { type: 'report', attemptId, stage: 'acknowledged' });
  }

  async setState(worker: Worker, state: WorkerState): Promise<void> {
    const { store, clock } = this.needs;
    if (worker.state === state) return;
    worker.state = state;
    if (state !== 'ready') this.dismiss(worker);
    await store.store.commit(store.workerState(worker, state, clock.now()));
    this.changed(worker);
  }

  /** The worker is gone: what it held is lost at once, not when a lease runs out. */
  async end(
    worker: Worker,
    end: { reason: string; exitCode?: number | null; exitSignal?: string | null },
  ): Promise<void> {
    const { store, clock, jobs } = this.needs;
    worker.state = 'ended';
    this.workers.delete(keyOf(worker));
    this.dismiss(worker);
    await store.store.commit(
      store.workerEnded(worker, {
        at: clock.now(),
        reason: end.reason,
        exitCode: end.exitCode ?? null,
        exitSignal: end.exitSignal ?? null,
      }),
    );
    const held = await jobs.ledger.running({ holder: worker.id, kinds: ['endpoint'] });
    for (const { id: jobId, attemptId } of held.filter((job) => job.queue === worker.endpointId))
      await jobs.lose({ jobId, attemptId }, `Its worker ${worker.id} is gone: ${end.reason}`);
    this.changed(worker);
  }

  /** The job is over: nobody needs to know any more who lost it. */
  forgetJob(jobId: string): void {
    this.refused.delete(jobId);
  }

  private dismiss(worker: Worker): void {
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

  private async seen(worker: Worker, now: number): Promise<void> {
    const { store } = this.needs;
    worker.seenAt = now;
    if (worker.state === 'starting') {
      worker.readyAt = now;
      worker.idleSince = now;
      await this.setState(worker, 'ready');
      worker.savedAt = now;
    } else if (now - worker.savedAt > saveSeenMs) {
      worker.savedAt = now;
      await store.store.commit(store.workerState(worker, worker.state, now));
    }
  }

  private line(endpointId: string): Line {
    let line = this.lines.get(endpointId);
    if (!line) {
      line = { waiters: [], pumping: false, again: false };
      this.lines.set(endpointId, line);
    }
    return line;
  }

  private changed(worker: Worker): void {
    for (const listener of this.changeListeners) listener(worker);
  }
}

const keyOf = ({ endpointId, id }: WorkerName): string => `${endpointId}/${id}`;

function workerOf(row: WorkerRow): Worker {
  return {
    id: row.id,
    endpointId: row.endpointId,
    origin: row.origin,
    version: row.version,
    state: row.state,
    createdAt: row.createdAt,
    readyAt: row.readyAt,
    seenAt: row.seenAt,
    idleSince: row.readyAt ?? row.createdAt,
    running: new Map(),
    acknowledged: new Set(),
    stopping: new Map(),
    toTell: new Set(),
    tell: () => {},
    unhealthy: undefined,
    savedAt: row.seenAt ?? 0,
  };
}

function externalRow(endpoint: EndpointRow, id: string, now: number): WorkerRow {
  return {
    id,
    endpointId: endpoint.id,
    node: null,
    version: endpoint.version,
    origin: 'external',
    pid: null,
    processStart: null,
    keyId: null,
    state: 'ready',
    reason: null,
    createdAt: now,
    readyAt: now,
    seenAt: now,
    endedAt: null,
    exitCode: null,
    exitSignal: null,
  };
}
