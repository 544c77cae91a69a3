// Runs attempts of the kinds that run in this process: claim → run under lease, deadline and signal → finish.
// After a restart it adopts what its node was running; a kind that cannot continue loses the attempt.
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

export interface RunnerOptions {
  jobs: Jobs;
  clock: Clock;
  log: Log;
  /** This server's identity: the holder of its leases, the same after a restart. */
  node: string;
  leaseMs: number;
  /** How long a cancelled or timed out attempt may take to end before it is given up. */
  stopMsMax: number;
  /** Whether this node takes jobs that ask for labels; drain and cordon make it say no. */
  accepts?: (job: Job) => boolean;
  /** Other nodes use the same store and may start what this one seems to have lost. */
  shared?: boolean;
  /** Taken in one go at most, so that other nodes get their share. */
  claimMax?: number;
  /** Statements of the transaction that starts an attempt here. */
  startSteps?: (job: Job) => Step[];
  /** How often the queues are looked at without a wake-up. */
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
  /** Attempts whose work is over and whose end is being written. */
  private readonly ending = new Set<string>();
  private readonly claimLoop: Loop;
  private readonly beatLoop: Loop;
  private readonly unsubscribe: (() => void)[] = [];
  private turn = 0;
  private cancelSilence: () => void = () => {};
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
    this.unsubscribe.push(
      jobs.store.onReady(() => this.claimLoop.wake()),
      jobs.onCancel((job) => this.stopAttempt(job.attemptId, 'cancel')),
    );
    await this.claimLoop.start();
    await this.beatLoop.start();
  }

  /** Ends the loops; attempts of kinds that adopt go on without us, the others are told to stop. */
  async stop(): Promise<void> {
    this.stopping = true;
    for (const off of this.unsubscribe.splice(0)) off();
    await this.claimLoop.stop();
    for (const { stop } of this.active.values()) stop.abort('shutdown' satisfies StopReason);
    await Promise.all([...this.active.values()].map(({ ended }) => ended));
    await this.beatLoop.stop();
    this.cancelSilence();
  }

  /** A cancel that came through another node. */
  cancelRequested(jobId: string): void {
    for (const { job } of this.active.values()) {
      if (job.id === jobId) this.stopAttempt(job.attemptId, 'cancel');
    }
  }

  /** Looks for work now: a limit changed, a queue was resumed. */
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
          'The server ended while it ran.',
        );
    }
  }

  private async claim(): Promise<void> {
    if (this.stopping) return;
    const { jobs, clock, node, leaseMs, accepts, claimMax = Infinity, startSteps } = this.options;
    for (const kind of this.kinds) {
      const room = kind.capacity() - this.busyCount(kind.name);
      const free = Math.min(room, claimMax);
      if (free <= 0) continue;
      const rows = (await jobs.ledger.queues(kind.name)).filter(({ paused }) => !paused);
      if (rows.length === 0) continue;
      // Every turn starts with another queue, so that a full one does not starve the rest.
      this.turn += 1;
      const start = this.turn % rows.length;
      const queues = [...rows.slice(start), ...rows.slice(0, start)].map((row) => ({
        name: queueKey(row.kind, row.name),
        ...(row.concurrencyMax === null ? {} : { limit: row.concurrencyMax }),
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
      if (started.length > 0 && this.active.size === 0) this.watchSilence(clock.now() + leaseMs);
      for (const job of started) this.launch(job, false);
      if (started.length === free && room > free) this.claimLoop.wake();
    }
  }

  private launch(job: Job, adopted: boolean): void {
    const stop = new AbortController();
    const ended = this.attempt(job, adopted, stop).catch((error: unknown) =>
      this.options.log.error('an attempt ended outside its kind', { jobId: job.id, error }),
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
        ).catch((error: unknown) => crashed(error, log, job)),
        this.givenUp(job, stop.signal, over.signal),
      ]);
      const reason = stop.signal.reason as StopReason | undefined;
      // The server ends, the work goes on: whoever adopts it will write the end.
      if (outcome === 'leave' || (reason === 'shutdown' && kind.adopts && outcome.type === 'lost'))
        return;
      if (reason === 'lost') return;
      this.vacate(job.attemptId);
      await this.settle(latest.job, kind.repeatsLostOnly ? final(outcome) : outcome);
      this.claimLoop.wake();
    } finally {
      over.abort('over');
      cancelTimers();
    }
  }

  /** Its place is free before its end is written: the end and the claim of the next job then share a commit. */
  private vacate(attemptId: string): void {
    this.ending.add(attemptId);
    if (!this.options.shared) this.claimLoop.wake();
  }

  /** The end must reach the ledger: as long as the store is away (full disk, network), try again. */
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
        log.warn('the end of an attempt could not be written yet', { jobId: job.id, error });
        await clock.sleep(waitMs);
      }
    }
  }

  /** `latest` is the job as last written from here: whoever writes next need not read it again. */
  private context(latest: { job: Job }, adopted: boolean, signal: AbortSignal): Run {
    const { job } = latest;
    const { attemptId } = job;
    const bring = async (fact: Fact) => {
      latest.job = (await this.options.jobs.bring(job.id, fact, undefined, latest.job)).job;
    };
    const { shared, leaseMs } = this.options;
    return {
      job,
      adopted,
      // The lease was renewed up to a third of it before the last sign of this server.
      aloneMsMax: shared && mayRunAgain(job) ? (leaseMs * 2) / 3 : null,
      signal,
      report: (update) => bring({ type: 'report', attemptId, ...update }),
      needInput: (needed, message) =>
        bring({ type: 'input', attemptId, needed, ...(message === undefined ? {} : { message }) }),
    };
  }

  /** Timers count awake time: a suspended machine does not use up a job's time. */
  private armTimers(job: Job, asleepMs: number, stop: AbortController): () => void {
    const { clock } = this.options;
    if (job.timeoutMs === null) return () => {};
    const begun = job.startedAt ?? clock.now();
    const used = Math.max(clock.now() - begun - asleepMs, 0);
    return clock.after(Math.max(job.timeoutMs - used, 0), () =>
      stop.abort('timeout' satisfies StopReason),
    );
  }

  /** A kind that does not stop when told to never holds up its job: after a while the attempt is given up. */
  private async givenUp(
    { id }: Job,
    signal: AbortSignal,
    over: AbortSignal,
  ): Promise<Outcome | 'leave'> {
    await aborted(signal);
    const { clock, jobs, stopMsMax } = this.options;
    const reason = signal.reason as StopReason;
    // Whoever cancelled may have granted more time than a stop usually gets.
    const row = reason === 'cancel' ? await jobs.ledger.find(id).catch(() => undefined) : undefined;
    const granted = row?.facts.cancelGraceMs;
    await clock.sleep(stopMsMax + (typeof granted === 'number' ? granted : 0), over);
    if (reason === 'shutdown' || reason === 'lost') return 'leave';
    const error = { code: 'stuck', message: 'It did not stop in time and was given up.' };
    return reason === 'timeout' ? { type: 'timed_out', error } : { type: 'cancelled', error };
  }

  private async beat(): Promise<void> {
    const entries = [...this.active.values()];
    const { clock, leaseMs } = this.options;
    if (entries.length === 0) return;
    const sentAt = clock.now();
    const held = await this.extend(entries.map(({ job }) => job.attemptId));
    this.watchSilence(sentAt + leaseMs);
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
   * Cut off from the store for longer than a lease: whatever another node may start again must stop here, or it would run
   * twice. An attempt that nobody will repeat goes on; its end is written when the store is back, if it still counts.
   */
  private watchSilence(leaseUntil: number): void {
    const { clock, log, shared } = this.options;
    if (!shared) return;
    this.cancelSilence();
    this.cancelSilence = clock.after(leaseUntil - clock.now(), () => {
      const repeated = [...this.active.values()].filter(({ job }) => mayRunAgain(job));
      if (repeated.length === 0) return;
      log.warn('cut off from the store: stopping what may be started elsewhere', {
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
  attempt < retry.attemptsMax && lost < retry.lostMax;

function final(outcome: Outcome): Outcome {
  const fails = outcome.type === 'failed' || outcome.type === 'timed_out';
  return fails ? { ...outcome, retry: false } : outcome;
}

function crashed(error: unknown, log: Log, job: Job): Outcome {
  if (error instanceof AppError) {
    const { code, message, hint, data } = error;
    return {
      type: 'failed',
      error: { code, message, ...(hint ? { hint } : {}), ...(data ? { data } : {}) },
    };
  }
  log.error('a kind threw while it ran an attempt', { jobId: job.id, error });
  return {
    type: 'failed',
    error: {
      code: 'internal',
      message: 'The program that ran it failed.',
      hint: 'The server log has the cause.',
    },
  };
}
