// The workers that are connected to this server and the jobs they hold. A worker's posts carry no attempt id, so a
// worker that may still post for an old attempt never gets the next attempt of that job.
import { isFinal } from '../../../jobs/job.ts';
import { JobAssigner, type JobAssignerDeps } from '../jobs/assigner.ts';
import type { EndpointRow, WorkerRow, WorkerState } from '../store/endpoints.ts';
import { drainPauseMs, externalRow, keyOf, workerOf, type Worker } from './worker.ts';

/** How often the last contact of an external worker is stored. */
const saveSeenMs = 10_000;
const repeatStopMs = 1000;
const settleMs = 2000;

export class WorkerRegistry {
  readonly workers = new Map<string, Worker>();
  readonly assigner: JobAssigner;
  private readonly deps: JobAssignerDeps;
  private readonly changeListeners = new Set<(worker: Worker) => void>();

  constructor(deps: JobAssignerDeps) {
    this.deps = deps;
    this.assigner = new JobAssigner(deps);
  }

  /** Restores workers and the jobs they hold after a restart. */
  async load(): Promise<void> {
    const { jobs, store } = this.deps;
    // A worker may have called before this point. It is already known.
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

  ofEndpoint(endpointId: string): Worker[] {
    return [...this.workers.values()].filter((worker) => worker.endpointId === endpointId);
  }

  /** Called when a worker becomes ready, idle or gone. */
  onChange(listener: (worker: Worker) => void): () => void {
    this.changeListeners.add(listener);
    return () => this.changeListeners.delete(listener);
  }

  add(row: WorkerRow): Worker {
    const worker = workerOf(row);
    this.workers.set(keyOf(row), worker);
    return worker;
  }

  /** Returns the calling worker. An unknown worker is an external one and is added. */
  async join(endpoint: EndpointRow, workerId: string): Promise<Worker> {
    const { clock, store } = this.deps;
    const now = clock.now();
    const name = { endpointId: endpoint.id, id: workerId };
    let worker = this.workers.get(keyOf(name));
    if (!worker) {
      const row = externalRow(endpoint, workerId, now);
      const known = await store.worker(name);
      // A process of this server that was given up. It may call, but gets no jobs.
      if (known && known.endedAt !== null && known.origin !== 'external')
        return { ...workerOf({ ...row, state: 'ended' }), seenAt: now };
      const back = known && known.endedAt !== null;
      if (!known || back)
        await store.store.commit(back ? store.reviveWorker(name, now) : store.insertWorker(row));
      worker = this.workers.get(keyOf(name)) ?? this.add(known && !back ? known : row);
    }
    await this.markSeen(worker, now);
    return worker;
  }

  /**
   * Jobs that were assigned to the worker but that it does not run never reached it. They return to the queue
   * immediately.
   */
  async reconcile(worker: Worker, running: ReadonlySet<string>): Promise<void> {
    const { jobs, clock } = this.deps;
    const missing = [...worker.running].filter(([id]) => !running.has(id));
    if (missing.length === 0) return;
    for (const [id, attemptId] of missing) await this.assigner.returnJob(worker, id, attemptId);
    await jobs.store.promote(clock.now());
  }

  /** The attempt of this job that the worker holds; undefined if it holds none. */
  async heldAttempt(worker: Worker, jobId: string): Promise<string | undefined> {
    const known = worker.running.get(jobId);
    if (known) return known;
    const job = await this.deps.jobs.ledger.find(jobId);
    if (!job || job.kind !== 'endpoint' || job.queue !== worker.endpointId) return undefined;
    if (isFinal(job.status) || job.status === 'queued' || job.holder !== worker.id)
      return undefined;
    worker.running.set(job.id, job.attemptId);
    return job.attemptId;
  }

  /** The worker has finished with a job, for any reason. */
  release(worker: Worker, jobId: string): void {
    worker.running.delete(jobId);
    worker.acknowledged.delete(jobId);
    worker.stopping.delete(jobId);
    worker.unsentStops.delete(jobId);
    if (worker.running.size === 0) worker.idleSince = this.deps.clock.now();
    this.changed(worker);
  }

  /** The job has ended, but the worker may still run it, so the worker is asked to stop it. */
  stopJob(worker: Worker, jobId: string): void {
    worker.running.delete(jobId);
    worker.acknowledged.delete(jobId);
    if (!worker.stopping.has(jobId)) worker.stopping.set(jobId, this.deps.clock.now());
    worker.unsentStops.add(jobId);
    worker.wakeStopPoll();
    this.changed(worker);
  }

  /**
   * Long poll for jobs that the worker must stop. Repeats jobs that it has not stopped, because it may not have
   * started them yet.
   */
  async pollStops(worker: Worker, waitMs: number, signal: AbortSignal): Promise<string[]> {
    if (worker.unsentStops.size === 0) {
      const wake = new AbortController();
      worker.wakeStopPoll = () => wake.abort();
      const mustEnd = worker.state === 'draining' ? drainPauseMs : waitMs;
      const sleepMs = Math.min(worker.stopping.size > 0 ? repeatStopMs : mustEnd, mustEnd, waitMs);
      await this.deps.clock.sleep(sleepMs, AbortSignal.any([signal, wake.signal]));
      worker.wakeStopPoll = () => {};
    }
    if (signal.aborted) return [];
    const ids = new Set([...worker.unsentStops, ...worker.stopping.keys()]);
    worker.unsentStops.clear();
    return [...ids];
  }

  /**
   * The worker reports that it runs nothing: stopped jobs have stopped, and jobs that it held were dropped without
   * a report.
   */
  async reportIdle(worker: Worker): Promise<void> {
    const { jobs, clock } = this.deps;
    for (const id of worker.stopping.keys()) this.release(worker, id);
    for (const [jobId, attemptId] of [...worker.running]) {
      const job = await jobs.ledger.find(jobId);
      // Old workers send several polls concurrently, so a poll may predate the response to another one.
      if (job?.startedAt && clock.now() - job.startedAt < settleMs) continue;
      this.release(worker, jobId);
      await jobs.lose({ jobId, attemptId }, `Worker ${worker.id} no longer runs the job.`);
    }
  }

  /** Heartbeat with the jobs that the worker reports as running. */
  async ping(worker: Worker, endpoint: EndpointRow, jobIds: readonly string[]): Promise<void> {
    const named = new Set(jobIds);
    for (const id of worker.stopping.keys())
      if (!named.has(id)) {
        worker.stopping.delete(id);
        worker.unsentStops.delete(id);
      }
    const attempts = new Map<string, string>();
    for (const id of named) {
      const attemptId = await this.heldAttempt(worker, id);
      if (attemptId) attempts.set(id, attemptId);
      else if (!worker.stopping.has(id)) this.stopJob(worker, id);
    }
    if (attempts.size === 0) return;
    await this.extend(worker, endpoint, attempts);
    for (const [id, attemptId] of attempts) await this.acknowledge(worker, id, attemptId);
  }

  /** Extends the leases. Attempts that the worker no longer holds are stopped. */
  async extend(
    worker: Worker,
    endpoint: EndpointRow,
    attempts: ReadonlyMap<string, string>,
  ): Promise<void> {
    const { jobs, clock } = this.deps;
    const until = clock.now() + endpoint.spec.leaseMs;
    const held = await jobs.store.heartbeat([...attempts.values()], worker.id, until);
    for (const [id, attemptId] of attempts)
      if (!held.has(attemptId) && worker.running.get(id) === attemptId) this.stopJob(worker, id);
  }

  async acknowledge(worker: Worker, jobId: string, attemptId: string): Promise<void> {
    if (worker.acknowledged.has(jobId)) return;
    worker.acknowledged.add(jobId);
    await this.deps.jobs.applyFact(jobId, { type: 'report', attemptId, stage: 'acknowledged' });
  }

  async setState(worker: Worker, state: WorkerState): Promise<void> {
    const { store, clock } = this.deps;
    if (worker.state === state) return;
    worker.state = state;
    if (state !== 'ready') this.assigner.stopWaiting(worker);
    // RunPod's package exits only after its open polls have returned.
    if (state === 'draining') worker.wakeStopPoll();
    await store.store.commit(store.workerState(worker, state, clock.now()));
    this.changed(worker);
  }

  /** The worker is gone, so its jobs are lost immediately, without waiting for the leases to expire. */
  async end(
    worker: Worker,
    end: { reason: string; exitCode?: number | null; exitSignal?: string | null },
  ): Promise<void> {
    const { store, clock, jobs } = this.deps;
    worker.state = 'ended';
    this.workers.delete(keyOf(worker));
    this.assigner.stopWaiting(worker);
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
      await jobs.lose({ jobId, attemptId }, `Worker ${worker.id} is gone: ${end.reason}`);
    this.changed(worker);
  }

  private async markSeen(worker: Worker, now: number): Promise<void> {
    const { store } = this.deps;
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
