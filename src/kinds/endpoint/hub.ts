// The workers that talk to this server, and what they hold: who waits for work, who must be told to stop, who is alive.
// Workers' posts carry no attempt id, so a worker that may still post for an old attempt never gets the next one.
import { isFinal } from '../../jobs/job.ts';
import { Handout, type HandoutNeeds } from './handout.ts';
import type { EndpointRow, WorkerRow, WorkerState } from './store.ts';
import { externalRow, keyOf, workerOf, type Worker } from './worker.ts';

/** How often the last sign of life of an external worker is written down. */
const saveSeenMs = 10_000;
const tellAgainMs = 1000;
const settleMs = 2000;

export class WorkerHub {
  readonly workers = new Map<string, Worker>();
  readonly handout: Handout;
  private readonly needs: HandoutNeeds;
  private readonly changeListeners = new Set<(worker: Worker) => void>();

  constructor(needs: HandoutNeeds) {
    this.needs = needs;
    this.handout = new Handout(needs);
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

  /** What the worker does not run although it was given to it never reached it: it goes back at once. */
  async reconcile(worker: Worker, running: ReadonlySet<string>): Promise<void> {
    const { jobs, clock } = this.needs;
    const missing = [...worker.running].filter(([id]) => !running.has(id));
    if (missing.length === 0) return;
    for (const [id, attemptId] of missing) await this.handout.giveBack(worker, id, attemptId);
    await jobs.store.promote(clock.now());
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

  /** Long poll of a worker for jobs it must stop. What it has not stopped it is told again: it may not have begun it. */
  async stops(worker: Worker, waitMs: number, signal: AbortSignal): Promise<string[]> {
    if (worker.toTell.size === 0) {
      const told = new AbortController();
      worker.tell = () => told.abort();
      const sleepMs = worker.stopping.size > 0 ? Math.min(tellAgainMs, waitMs) : waitMs;
      await this.needs.clock.sleep(sleepMs, AbortSignal.any([signal, told.signal]));
      worker.tell = () => {};
    }
    if (signal.aborted) return [];
    const ids = new Set([...worker.toTell, ...worker.stopping.keys()]);
    worker.toTell.clear();
    return [...ids];
  }

  /** It says that it runs nothing: what it was to stop has stopped, and what it held it has dropped without a word. */
  async idle(worker: Worker): Promise<void> {
    const { jobs, clock } = this.needs;
    for (const id of worker.stopping.keys()) this.release(worker, id);
    for (const [jobId, attemptId] of [...worker.running]) {
      const job = await jobs.ledger.find(jobId);
      // Old workers ask several times at once: a question may be older than the answer to its neighbour.
      if (job?.startedAt && clock.now() - job.startedAt < settleMs) continue;
      this.release(worker, jobId);
      await jobs.lose({ jobId, attemptId }, `Its worker ${worker.id} no longer runs it.`);
    }
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
    if (state !== 'ready') this.handout.dismiss(worker);
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
    this.handout.dismiss(worker);
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

  private changed(worker: Worker): void {
    for (const listener of this.changeListeners) listener(worker);
  }
}
