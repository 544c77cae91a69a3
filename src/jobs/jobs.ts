// The only writer of job state: submit, start, finish, cancel, retry. Each method reads a job, calls decide(), and commits
// with the version that the decision is based on. After a conflict it reads and decides again.
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Candidate, ClaimPlan, Step, Store } from '../store/store.ts';
import { recordAttempt } from './attempt-trace.ts';
import { applyDecision, insertJob, storedInput, tooBusy, updateJob } from './changes.ts';
import { decide } from './decide.ts';
import { enqueue, queueKey } from './intents.ts';
import { isRefused, type Decision, type Fact, type Refusal } from './decision.ts';
import { openDependencies, refuseUnmetDependencies, unknownJob } from './dependencies.ts';
import { bodyHash, requireSameBody } from './idempotency.ts';
import { FinishedJobCounts } from './finished-counts.ts';
import { isFinal, jobFromRow, type Job } from './job.ts';
import type { Kind, Outcome } from './kind.ts';
import type { JobsHooks } from './hooks.ts';
import { Ledger } from './ledger.ts';
import { queueSettingSteps, queueStep, type QueueSettings } from './queues.ts';
import { RecentJobs } from './recent-jobs.ts';
import { toStorableOutcome } from './storable-outcome.ts';
import { firstEvents, newJob, type Submission } from './submission.ts';

interface Plan {
  job: Job;
  existing: boolean;
  steps: Step[];
}

/** A decision with further statements of a kind for the same transaction. */
type Change = Decision & { steps?: Step[] };

const maxConflicts = 50;

export class Jobs {
  readonly ledger: Ledger;
  readonly store: Store;
  readonly finished = new FinishedJobCounts();
  private readonly clock: Clock;
  private readonly kinds = new Map<string, Kind>();
  private readonly recent = new RecentJobs();
  private readonly knownQueues = new Set<string>();
  private readonly cancelListeners = new Set<(job: Job) => void>();

  private readonly hooks: JobsHooks;

  constructor(store: Store, clock: Clock, hooks: JobsHooks = {}) {
    this.store = store;
    this.clock = clock;
    this.hooks = hooks;
    this.ledger = new Ledger(store);
  }

  acceptsWork(): boolean {
    return this.hooks.acceptsWork?.() ?? true;
  }

  async explainWait(job: Job): Promise<string | undefined> {
    return this.hooks.explainWait?.(job);
  }

  addKind(kind: Kind): void {
    this.kinds.set(kind.name, kind);
  }

  kind(name: string): Kind {
    const kind = this.kinds.get(name);
    if (!kind)
      throw new AppError('invalidInput', `Job kind ${name} does not exist.`, {
        hint: `Use one of: ${[...this.kinds.keys()].join(', ')}.`,
      });
    return kind;
  }

  /** Undefined if this server does not have the kind. Such a job is shown without kind-specific fields. */
  findKind(name: string): Kind | undefined {
    return this.kinds.get(name);
  }

  /** These kinds and all kinds that are part of them. */
  withParts(names: readonly string[]): string[] {
    const parts = this.listKinds().filter(({ partOf }) => partOf && names.includes(partOf));
    return [...new Set([...names, ...parts.map(({ name }) => name)])];
  }

  listKinds(): Kind[] {
    return [...this.kinds.values()];
  }

  async get(id: string): Promise<Job> {
    const job = await this.ledger.find(id);
    if (!job) throw unknownJob(id);
    return job;
  }

  /** `existing`: a job with the same idempotency key and body already existed. */
  async submit(submission: Submission): Promise<{ job: Job; existing: boolean }> {
    const [result] = await this.submitMany([submission]);
    return result!;
  }

  /** Submits all or none, in one transaction. Returns existing jobs for known idempotency keys. */
  async submitMany(submissions: readonly Submission[]): Promise<{ job: Job; existing: boolean }[]> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const plans = await this.planAll(submissions);
      const steps = plans.flatMap((plan) => plan.steps);
      if (steps.length === 0) return plans.map(({ job, existing }) => ({ job, existing }));
      if ((await this.store.commit(steps)).applied) {
        for (const { job, existing, steps: own } of plans) {
          const waits = !existing && job.status === 'queued' && this.kind(job.kind).dispatched;
          if (waits) this.recent.add(job, storedInput(own));
        }
        return plans.map(({ job, existing }) => ({ job, existing }));
      }
    }
    throw tooBusy();
  }

  /** Reads, decides and commits until no conflict occurs. Passing the `known` job saves the first read. */
  async change(
    id: string,
    choose: (job: Job) => Change | undefined | Promise<Change | undefined>,
    known?: Job,
  ): Promise<Job> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const trusted = tries === 0 ? known : undefined;
      const job = trusted ?? (await this.get(id));
      const change = await choose(job);
      // Only a commit proves that `known` is current. A decision to change nothing requires a fresh read.
      if (!change && trusted) continue;
      if (!change) return job;
      const now = this.clock.now();
      const steps = [...updateJob(job, change, now), ...(change.steps ?? [])];
      if ((await this.store.commit(steps)).applied)
        return this.finished.record(job, applyDecision(job, change, now));
    }
    throw tooBusy();
  }

  /** Applies a fact to a job. `applied: false`: the fact no longer applies and nothing changed. */
  async applyFact(
    id: string,
    fact: Fact,
    steps?: (job: Job) => Step[],
    known?: Job,
  ): Promise<{ job: Job; applied: boolean; refusal?: Refusal }> {
    let refusal: Refusal | undefined;
    let before: Job | undefined;
    const choose = (present: Job): Change | undefined => {
      before = present;
      const result = decide(present, fact, this.clock.now());
      refusal = isRefused(result) ? result : undefined;
      if (isRefused(result)) return undefined;
      if (result.events.length === 0 && Object.keys(result.patch).length === 0) return undefined;
      return steps ? { ...result, steps: steps(present) } : result;
    };
    const job = await this.change(id, choose, known);
    const tracer = this.hooks.tracer?.();
    if (tracer && before && !refusal) recordAttempt(tracer, before, fact, job);
    return refusal ? { job, applied: false, refusal } : { job, applied: true };
  }

  /** Starts queued attempts for a holder. They are running when this resolves. */
  async claim(request: {
    queues: readonly { name: string; limit?: number }[];
    limit: number;
    holder: string;
    node: string | null;
    leaseMs: number;
    stage?: string;
    accept?: (job: Job) => boolean;
    /** How many jobs that `accept` rejects are skipped. Each of them is read. */
    lookahead?: number;
    steps?: (job: Job) => Step[];
  }): Promise<Job[]> {
    if (!this.acceptsWork()) return [];
    const now = this.clock.now();
    const started = new Map<string, Job>();
    const unusable: string[] = [];
    const plan = (candidate: Candidate): ClaimPlan => {
      // If the candidate includes the row, the cache saves nothing.
      if (!candidate.lazy) this.recent.disable();
      const job = this.recent.take(candidate) ?? jobFromRow(candidate.job);
      if (job.undecodable) {
        unusable.push(job.id);
        return { take: false };
      }
      if (job.attemptId !== candidate.attemptId || job.status !== 'queued')
        return { take: false, drop: true };
      if (request.accept && !request.accept(job)) return { take: false };
      const stage = request.stage === undefined ? {} : { stage: request.stage };
      const fact: Fact = { type: 'started', holder: request.holder, node: request.node, ...stage };
      const result = decide(job, fact, now);
      // The job has expired. The sweep ends it and deletes its entry.
      if (isRefused(result)) return { take: false };
      started.set(candidate.attemptId, applyDecision(job, result, now));
      return {
        take: true,
        steps: [...updateJob(job, result, now), ...(request.steps?.(job) ?? [])],
      };
    };
    const lookahead = request.lookahead ?? (request.accept ? 50 : 0);
    const { queues, limit, holder, leaseMs } = request;
    const taken = await this.store.claim({ queues, limit, holder, leaseMs, now, lookahead }, plan);
    // Undecodable jobs must leave the head of the queue, or the jobs behind them never run.
    for (const id of unusable) await this.applyFinalFact(id, { type: 'undecodable' });
    if (taken.length === 0 && unusable.length > 0) return this.claim(request);
    return taken.map(({ attemptId }) => started.get(attemptId)!);
  }

  /**
   * Records the outcome of an attempt. Passing the `known` job saves a read. `applied: false`: the attempt had already
   * ended and nothing changed.
   */
  async finish(
    attempt: { jobId: string; attemptId: string; known?: Job },
    outcome: Outcome,
    steps?: (job: Job) => Step[],
  ): Promise<{ job: Job; applied: boolean }> {
    const fact: Fact = {
      type: 'ended',
      attemptId: attempt.attemptId,
      outcome: toStorableOutcome(outcome),
      random: Math.random(),
    };
    return this.applyFinalFact(attempt.jobId, fact, steps, attempt.known);
  }

  async lose(
    attempt: { jobId: string; attemptId: string },
    message?: string,
  ): Promise<{ job: Job; applied: boolean }> {
    const why = message === undefined ? {} : { message };
    const { attemptId } = attempt;
    const fact: Fact = { type: 'lost', attemptId, random: Math.random(), ...why };
    return this.applyFinalFact(attempt.jobId, fact);
  }

  /** Ends a queued job immediately. Asks a running job to stop: listeners notify its holder. */
  async cancel(id: string, by: string, reason?: string, graceMs?: number): Promise<Job> {
    const why = reason === undefined ? {} : { reason };
    const grace = graceMs === undefined ? {} : { graceMs };
    const fact: Fact = { type: 'cancel', by, ...why, ...grace };
    const { job, applied } = await this.applyFinalFact(id, fact);
    if (applied && !isFinal(job.status)) for (const listener of this.cancelListeners) listener(job);
    return job;
  }

  async forceCancel(id: string): Promise<Job> {
    return (await this.applyFinalFact(id, { type: 'forceCancel' })).job;
  }

  async expire(id: string): Promise<void> {
    await this.applyFinalFact(id, { type: 'expired' });
  }

  onCancel(listener: (job: Job) => void): () => void {
    this.cancelListeners.add(listener);
    return () => this.cancelListeners.delete(listener);
  }

  /** `steps`: further statements for the same transaction. */
  async retry(id: string, by: string, steps?: (job: Job) => Step[]): Promise<Job> {
    const before = await this.get(id);
    if (!this.kind(before.kind).retryable) {
      throw new AppError('wrongState', `Jobs of kind ${before.kind} cannot be retried.`);
    }
    await refuseUnmetDependencies(this.ledger, id);
    const { job, refusal } = await this.applyFact(id, { type: 'retry', by }, steps);
    if (refusal) {
      throw new AppError('wrongState', refusal.message, {
        hint: 'Only failed, timed_out and cancelled jobs can be retried. get_job shows the status.',
        data: { status: job.status },
      });
    }
    return job;
  }

  async setPinned(id: string, pinned: boolean): Promise<Job> {
    return this.change(id, (job) =>
      job.pinned === pinned
        ? undefined
        : {
            patch: { pinned },
            events: [{ type: pinned ? 'pinned' : 'unpinned', data: {} }],
            intents: [],
          },
    );
  }

  /** Applies a fact that may end the job. If it does, dependent jobs are released. */
  private async applyFinalFact(
    ...fact: Parameters<Jobs['applyFact']>
  ): Promise<{ job: Job; applied: boolean }> {
    const result = await this.applyFact(...fact);
    if (result.applied && isFinal(result.job.status)) await this.releaseDependents(result.job);
    return result;
  }

  /** Releases or fails the jobs that depend on an ended job. The sweep repeats this after a crash. */
  async releaseDependents(job: Job): Promise<void> {
    for (const jobId of await this.ledger.dependents(job.id)) {
      await this.dependencyEnded(jobId, job);
    }
  }

  async dependencyEnded(
    jobId: string,
    ended: { id: string; status: Job['status'] },
  ): Promise<void> {
    let applied = false;
    const job = await this.change(jobId, async (present) => {
      applied = false;
      const open = await this.ledger.dependenciesOf(jobId);
      if (!open.some(({ afterId }) => afterId === ended.id)) return undefined;
      const met = ended.status === 'completed';
      const fact: Fact = met
        ? { type: 'dependencyMet' }
        : { type: 'dependencyFailed', jobId: ended.id, status: ended.status };
      const result = decide(present, fact, this.clock.now());
      if (isRefused(result)) return undefined;
      applied = true;
      // Deletes the rows of met dependencies. A failed one stays, so that a retry can check it.
      const forget: Step = {
        sql: 'DELETE FROM dependencies WHERE job_id = ? AND after_id = ?',
        params: [jobId, ended.id],
        expect: 1,
      };
      return { ...result, steps: met ? [forget] : [] };
    }).catch(ignoreMissing);
    if (job && applied && isFinal(job.status)) await this.releaseDependents(job);
  }

  /** Creates a queue, so that its settings can be changed before a job uses it. */
  async ensureQueue(kind: string, name: string): Promise<void> {
    if (this.knownQueues.has(queueKey(kind, name))) return;
    await this.store.commit([queueStep(kind, name, this.clock.now())]);
    this.knownQueues.add(queueKey(kind, name));
  }

  async setQueue(kind: string, name: string, settings: QueueSettings): Promise<void> {
    await this.ensureQueue(kind, name);
    await this.store.commit(queueSettingSteps(kind, name, settings));
  }

  /** The same idempotency key twice in one call yields one job, as it would in two calls. */
  private async planAll(submissions: readonly Submission[]): Promise<Plan[]> {
    const byKey = new Map<string, Plan>();
    const plans: Plan[] = [];
    for (const submission of submissions) {
      const key = submission.idempotencyKey && `${submission.owner}\n${submission.idempotencyKey}`;
      const before = key ? byKey.get(key) : undefined;
      if (before) {
        const job = requireSameBody(before.job, submission);
        plans.push({ job, existing: true, steps: [] });
        continue;
      }
      const plan = await this.plan(submission);
      if (key) byKey.set(key, plan);
      plans.push(plan);
    }
    return plans;
  }

  private async plan(submission: Submission): Promise<Plan> {
    const kind = this.kind(submission.kind);
    const hash = submission.idempotencyKey === undefined ? null : bodyHash(submission);
    if (submission.idempotencyKey !== undefined) {
      const before = await this.ledger.findByKey(submission.owner, submission.idempotencyKey);
      if (before) return { job: requireSameBody(before, submission), existing: true, steps: [] };
    }
    const dependencies = await openDependencies(this.ledger, submission);
    const job = newJob(submission, {
      now: this.clock.now(),
      hash,
      waitingFor: dependencies.length,
    });
    const steps = insertJob(job, firstEvents(job, kind));
    for (const afterId of dependencies) {
      steps.push({
        sql: 'INSERT INTO dependencies (after_id, job_id) VALUES (?, ?)',
        params: [afterId, job.id],
      });
    }
    if (kind.dispatched && !submission.failed) {
      if (!this.knownQueues.has(queueKey(job.kind, job.queue)))
        await this.ensureQueue(job.kind, job.queue);
      if (job.waitingFor === 0) steps.push(enqueue(job, job.runAt > job.createdAt ? job.runAt : 0));
    }
    if (submission.steps) steps.push(...submission.steps(job));
    return { job, existing: false, steps };
  }
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'notFound') return undefined;
  throw error;
}
