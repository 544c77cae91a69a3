// Runs attempts of the kinds that run in this process: claim → run with a lease, a deadline and an abort signal → finish.
// After a restart it adopts the attempts its node was running. Kinds that cannot continue lose the attempt.
import { AppError } from '../errors.ts';
import { aborted, type Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import { withTrace } from '../runtime/trace.ts';
import { attemptTrace } from './attempt-trace.ts';
import { queueKey } from './intents.ts';
import type { Fact } from './decision.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { Kind, Outcome, Run, StopReason } from './kind.ts';
import type { Step } from '../store/store.ts';

interface RunnerOptions {
  jobs: Jobs;
  clock: Clock;
  log: Log;
  /** The id of this server, which holds its leases. Stable across restarts. */
  node: string;
  leaseMs: number;
  /** How long a cancelled or timed-out attempt may take to stop before it is abandoned. */
  maxStopMs: number;
  /** Whether this node accepts the job: its labels match, and it is not drained or cordoned. */
  accepts?: (job: Job) => boolean;
  /** Other nodes share the store and may restart attempts that this node seems to have lost. */
  shared?: boolean;
  /** Maximum attempts per claim, so that other nodes get their share. */
  maxClaim?: number;
  /** Further statements for the transaction that starts an attempt. */
  startSteps?: (job: Job) => Step[];
  /** How often the queues are polled without a wake-up. */
  pollMs: number;
}

interface Active {
  job: Job;
  stop: AbortController;
  ended: Promise<void>;
}

export class Runner implements Service {
  readonly name = 'runner';
  private readonly options: RunnerOptions;
  private readonly kinds: Kind[];
  private readonly active = new Map<string, Active>();
  /** Attempts whose work has ended and whose outcome is being written. */
  private readonly ending = new Set<string>();
  private readonly claimLoop: Loop;
  private readonly beatLoop: Loop;
  private readonly unsubscribe: (() => void)[] = [];
  private turn = 0;
  private cancelLeaseTimer: () => void = () => {};
  private stopping = false;

  constructor(options: RunnerOptions) {
    this.options = options;
    const { jobs, clock, log } = options;
    this.kinds = jobs.listKinds().filter((kind) => kind.run);
    this.claimLoop = new Loop({
      name: 'claim',
      everyMs: options.pollMs,
      clock,
      log,
      run: () => this.claim(),
    });
    this.beatLoop = new Loop({
      name: 'heartbeat',
      everyMs: options.leaseMs / 3,
      clock,
      log,
      run: () => this.beat(),
    });
  }

  async start(): Promise<void> {
    const { jobs } = this.options;
    await this.adopt();
    // Kinds without `run` have workers of their own.
    const prefixes = this.kinds.map(({ name }) => queueKey(name, ''));
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (prefixes.some((prefix) => queue.startsWith(prefix))) this.claimLoop.wake();
      }),
      jobs.onCancel((job) => this.stopAttempt(job.attemptId, 'cancel')),
    );
    await this.claimLoop.start();
    await this.beatLoop.start();
  }

  /** Stops the loops and all attempts. Attempts of kinds that adopt continue without this server. */
  async stop(): Promise<void> {
    this.stopping = true;
    for (const off of this.unsubscribe.splice(0)) off();
    await this.claimLoop.stop();
    for (const { stop } of this.active.values()) stop.abort('shutdown' satisfies StopReason);
    await Promise.all([...this.active.values()].map(({ ended }) => ended));
    await this.beatLoop.stop();
    this.cancelLeaseTimer();
  }

  /** Handles a cancel that another node received. */
  cancelRequested(jobId: string): void {
    for (const { job } of this.active.values()) {
      if (job.id === jobId) this.stopAttempt(job.attemptId, 'cancel');
    }
  }

  /** Polls the queues now, after a limit changed or a queue was resumed. */
  wake(): void {
    this.claimLoop.wake();
  }

  activeCount(kind?: string): number {
    if (kind === undefined) return this.active.size;
    return [...this.active.values()].filter(({ job }) => job.kind === kind).length;
  }

  private busyCount(kind: string): number {
    const all = [...this.active.values()];
    return all.filter(({ job }) => job.kind === kind && !this.ending.has(job.attemptId)).length;
  }

  private async adopt(): Promise<void> {
    const { jobs, node } = this.options;
    const mine = await jobs.ledger.running({
      holder: node,
      kinds: this.kinds.map(({ name }) => name),
    });
    const live = mine.filter((job) => jobs.kind(job.kind).adopts);
    await this.extend(live.map(({ attemptId }) => attemptId));
    for (const job of mine) {
      if (jobs.kind(job.kind).adopts) this.launch(job, true);
      else
        await jobs.lose(
          { jobId: job.id, attemptId: job.attemptId },
          'The server stopped while the attempt was running.',
        );
    }
  }

  private async claim(): Promise<void> {
    if (this.stopping) return;
    const { jobs, clock, node, leaseMs, accepts, maxClaim = Infinity, startSteps } = this.options;
    for (const kind of this.kinds) {
      const room = kind.capacity() - this.busyCount(kind.name);
      const free = Math.min(room, maxClaim);
      if (free <= 0) continue;
      const rows = (await jobs.ledger.queues(kind.name)).filter(({ paused }) => !paused);
      if (rows.length === 0) continue;
      // Each round starts with another queue, so that a full queue does not starve the others.
      this.turn += 1;
      const start = this.turn % rows.length;
      const queues = [...rows.slice(start), ...rows.slice(0, start)].map((row) => ({
        name: queueKey(row.kind, row.name),
        ...(row.maxConcurrency === null ? {} : { limit: row.maxConcurrency }),
      }));
      const started = await jobs.claim({
        queues,
        limit: free,
        holder: node,
        node,
        leaseMs,
        ...(accepts ? { accept: accepts } : {}),
        ...(startSteps ? { steps: startSteps } : {}),
      });
      if (started.length > 0 && this.active.size === 0) this.watchLease(clock.now() + leaseMs);
      for (const job of started) this.launch(job, false);
      if (started.length === free && room > free) this.claimLoop.wake();
    }
  }

  private launch(job: Job, adopted: boolean): void {
    const stop = new AbortController();
    const ended = this.attempt(job, adopted, stop).catch((error: unknown) =>
      this.options.log.error('an attempt failed outside its kind', { jobId: job.id, error }),
    );
    const gone = ended.finally(() => {
      this.active.delete(job.attemptId);
      this.ending.delete(job.attemptId);
    });
    const entry = { job, stop, ended: gone };
    this.active.set(job.attemptId, entry);
    if (job.cancelRequestedAt !== null) stop.abort('cancel' satisfies StopReason);
  }

  /** One attempt from its start to the committed end. */
  private async attempt(job: Job, adopted: boolean, stop: AbortController): Promise<void> {
    const { jobs, log } = this.options;
    const kind = jobs.kind(job.kind);
    const asleepMs = (adopted && kind.asleepMs?.(job.startedAt ?? 0)) || 0;
    const cancelTimers = this.armTimers(job, asleepMs, stop);
    const latest = { job };
    const over = new AbortController();
    try {
      const outcome = await Promise.race([
        withTrace(attemptTrace(job), () =>
          kind.run!(this.context(latest, adopted, stop.signal)),
        ).catch((error: unknown) => toFailure(error, log, job)),
        this.abandonAfterStop(job, stop.signal, over.signal),
      ]);
      const reason = stop.signal.reason as StopReason | undefined;
      // The server stops but the work continues. The server that adopts it writes the outcome.
      if (outcome === 'leave' || (reason === 'shutdown' && kind.adopts && outcome.type === 'lost'))
        return;
      if (reason === 'lost') return;
      this.freeSlot(job.attemptId);
      await this.settle(latest.job, kind.repeatsLostOnly ? withoutRetry(outcome) : outcome);
      this.claimLoop.wake();
    } finally {
      over.abort('over');
      cancelTimers();
    }
  }

  /** Frees the slot before the outcome is written, so that the outcome and the next claim share a commit. */
  private freeSlot(attemptId: string): void {
    this.ending.add(attemptId);
    if (!this.options.shared) this.claimLoop.wake();
  }

  /** Writes the outcome to the ledger. Retries while the store is unavailable (full disk, network). */
  private async settle(job: Job, outcome: Outcome): Promise<void> {
    const { jobs, clock, log } = this.options;
    for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 5000)) {
      try {
        const attempt = { jobId: job.id, attemptId: job.attemptId, known: job };
        await jobs.finish(attempt, outcome);
        return;
      } catch (error) {
        if (error instanceof AppError && error.code === 'notFound') return;
        if (this.stopping) throw error;
        log.warn('failed to write the outcome of an attempt; will retry', { jobId: job.id, error });
        await clock.sleep(waitMs);
      }
    }
  }

  /** `latest` is the job as this server last wrote it, so that the next write needs no read. */
  private context(latest: { job: Job }, adopted: boolean, signal: AbortSignal): Run {
    const { job } = latest;
    const { attemptId } = job;
    const apply = async (fact: Fact) => {
      latest.job = (await this.options.jobs.applyFact(job.id, fact, undefined, latest.job)).job;
    };
    const { shared, leaseMs } = this.options;
    return {
      job,
      adopted,
      // The last renewal was at most a third of a lease before this server disappeared.
      maxAloneMs: shared && mayRunAgain(job) ? (leaseMs * 2) / 3 : null,
      signal,
      report: (update) => apply({ type: 'report', attemptId, ...update }),
      needInput: (needed, message) =>
        apply({
          type: 'input',
          attemptId,
          needed,
          ...(message === undefined ? {} : { message }),
        }),
    };
  }

  /** Timers count only awake time: a suspended machine does not use up a job's timeout. */
  private armTimers(job: Job, asleepMs: number, stop: AbortController): () => void {
    const { clock } = this.options;
    if (job.timeoutMs === null) return () => {};
    const begun = job.startedAt ?? clock.now();
    const used = Math.max(clock.now() - begun - asleepMs, 0);
    return clock.after(Math.max(job.timeoutMs - used, 0), () =>
      stop.abort('timeout' satisfies StopReason),
    );
  }

  /** Abandons an attempt whose kind does not stop in time, so that the job can end. */
  private async abandonAfterStop(
    { id }: Job,
    signal: AbortSignal,
    over: AbortSignal,
  ): Promise<Outcome | 'leave'> {
    await aborted(signal);
    const { clock, jobs, maxStopMs } = this.options;
    const reason = signal.reason as StopReason;
    // The cancel may grant more time than the default.
    const row = reason === 'cancel' ? await jobs.ledger.find(id).catch(() => undefined) : undefined;
    const granted = row?.facts.cancelGraceMs;
    await clock.sleep(maxStopMs + (typeof granted === 'number' ? granted : 0), over);
    if (reason === 'shutdown' || reason === 'lost') return 'leave';
    const error = { code: 'stuck', message: 'The attempt did not stop in time and was abandoned.' };
    return reason === 'timeout' ? { type: 'timed_out', error } : { type: 'cancelled', error };
  }

  private async beat(): Promise<void> {
    const entries = [...this.active.values()];
    const { clock, leaseMs } = this.options;
    if (entries.length === 0) return;
    const sentAt = clock.now();
    const held = await this.extend(entries.map(({ job }) => job.attemptId));
    this.watchLease(sentAt + leaseMs);
    const rows = await this.options.jobs.ledger.states(entries.map(({ job }) => job.id));
    const byId = new Map(rows.map((row) => [row.id, row]));
    for (const { job } of entries) {
      if (!this.active.has(job.attemptId)) continue;
      const row = byId.get(job.id);
      const over = !row || row.attemptId !== job.attemptId || isFinal(row.status);
      if (over || !held.has(job.attemptId)) this.stopAttempt(job.attemptId, 'lost');
      else if (row.cancelRequestedAt !== null) this.stopAttempt(job.attemptId, 'cancel');
    }
  }

  /**
   * Stops attempts when this node is disconnected from the store for longer than a lease: another node may start them
   * again, and they would run twice. Attempts that no node will repeat continue; their outcome is written on reconnect.
   */
  private watchLease(leaseUntil: number): void {
    const { clock, log, shared } = this.options;
    if (!shared) return;
    this.cancelLeaseTimer();
    this.cancelLeaseTimer = clock.after(leaseUntil - clock.now(), () => {
      const repeated = [...this.active.values()].filter(({ job }) => mayRunAgain(job));
      if (repeated.length === 0) return;
      log.warn('disconnected from the store; stopping attempts that another node may start', {
        attempts: repeated.map(({ job }) => job.attemptId),
      });
      for (const { job } of repeated) this.stopAttempt(job.attemptId, 'lost');
    });
  }

  private extend(attemptIds: string[]): Promise<Set<string>> {
    const { jobs, node, clock, leaseMs } = this.options;
    if (attemptIds.length === 0) return Promise.resolve(new Set());
    return jobs.store.heartbeat(attemptIds, node, clock.now() + leaseMs);
  }

  private stopAttempt(attemptId: string, reason: StopReason): void {
    const entry = this.active.get(attemptId);
    if (entry && !entry.stop.signal.aborted) entry.stop.abort(reason);
  }
}

const mayRunAgain = ({ attempt, lost, retry }: Job): boolean =>
  attempt < retry.maxAttempts && lost < retry.maxLost;

function withoutRetry(outcome: Outcome): Outcome {
  const fails = outcome.type === 'failed' || outcome.type === 'timed_out';
  return fails ? { ...outcome, retry: false } : outcome;
}

function toFailure(error: unknown, log: Log, job: Job): Outcome {
  if (error instanceof AppError) {
    const { code, message, hint, data } = error;
    return {
      type: 'failed',
      error: { code, message, ...(hint ? { hint } : {}), ...(data ? { data } : {}) },
    };
  }
  log.error('a kind threw an error while running an attempt', { jobId: job.id, error });
  return {
    type: 'failed',
    error: {
      code: 'internal',
      message: 'The job failed because of an internal error.',
      hint: 'The server log contains the cause.',
    },
  };
}
