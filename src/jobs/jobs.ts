// The only writer of job state: submit, start, finish, cancel, retry. Each reads a job, lets decide() choose, and commits
// with the version it decided on; on a conflict it reads and decides again.
import { AppError } from '../errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Tracer } from '../runtime/trace.ts';
import type { Candidate, ClaimPlan, Step, Store } from '../store/store.ts';
import { recordAttempt } from './attempt-trace.ts';
import { insertJob, patched, updateJob, writtenInput } from './changes.ts';
import { decide } from './decide.ts';
import { enqueue, queueKey } from './intents.ts';
import { isRefused, type Decision, type Fact, type Verdict } from './decision.ts';
import { openDependencies, refuseUnmetDependencies, unknownJob } from './dependencies.ts';
import { bodyHash, sameOrConflict } from './idempotency.ts';
import { isFinal, jobFromRow, type Job } from './job.ts';
import type { Kind, Outcome } from './kind.ts';
import { Ledger } from './ledger.ts';
import { queueSettingSteps, queueStep, type QueueSettings } from './queues.ts';
import { Recent } from './recent.ts';
import { storable } from './storable.ts';
import { eventName, firstEvents, newJob, type Submission } from './submission.ts';

interface Plan {
  job: Job;
  existing: boolean;
  steps: Step[];
}

/** What a change of a kind's own job does beyond its fields: rows of the kind in the same transaction. */
export type Change = Decision & { steps?: Step[] };

const conflictsMax = 50;

export class Jobs {
  readonly ledger: Ledger;
  /** Whether this server takes new work of any kind; a drained node does not. */
  admits: () => boolean = () => true;
  /** Why no server takes this waiting job now; undefined when one may. */
  whyWaits: (job: Job) => Promise<string | undefined> = async () => undefined;
  /** Set where the operator wants traces. */
  tracer: Tracer | undefined;
  readonly store: Store;
  private readonly clock: Clock;
  private readonly kinds = new Map<string, Kind>();
  private readonly recent = new Recent();
  private readonly knownQueues = new Set<string>();
  private readonly cancelListeners = new Set<(job: Job) => void>();

  constructor(store: Store, clock: Clock) {
    this.store = store;
    this.clock = clock;
    this.ledger = new Ledger(store);
  }

  addKind(kind: Kind): void {
    this.kinds.set(kind.name, kind);
  }

  kind(name: string): Kind {
    const kind = this.kinds.get(name);
    if (!kind)
      throw new AppError('invalidInput', `There is no kind of job called ${name}.`, {
        hint: `There are: ${[...this.kinds.keys()].join(', ')}.`,
      });
    return kind;
  }

  /** Undefined for a job of a kind that this server does not have: it is shown without what its kind would add. */
  findKind(name: string): Kind | undefined {
    return this.kinds.get(name);
  }

  /** These kinds with all that are a part of them. */
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

  /** `existing`: the same idempotency key came before with the same body. */
  async submit(submission: Submission): Promise<{ job: Job; existing: boolean }> {
    const [answer] = await this.submitMany([submission]);
    return answer!;
  }

  /** All or none: one transaction (existing ones by idempotency key are answered, not repeated). */
  async submitMany(submissions: readonly Submission[]): Promise<{ job: Job; existing: boolean }[]> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const plans = await this.planAll(submissions);
      const steps = plans.flatMap((plan) => plan.steps);
      if (steps.length === 0) return plans.map(({ job, existing }) => ({ job, existing }));
      if ((await this.store.commit(steps)).applied) {
        for (const plan of plans) {
          const { job, existing, steps: own } = plan;
          const waits = !existing && job.status === 'queued' && this.kind(job.kind).dispatched;
          if (waits) this.recent.add(job, writtenInput(own));
        }
        return plans.map(({ job, existing }) => ({ job, existing }));
      }
    }
    throw tooBusy();
  }

  /** Reads, decides and commits until nobody came in between. A caller that knows the job saves the first read. */
  async change(
    id: string,
    choose: (job: Job) => Change | undefined | Promise<Change | undefined>,
    known?: Job,
  ): Promise<Job> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const trusted = tries === 0 ? known : undefined;
      const job = trusted ?? (await this.get(id));
      const change = await choose(job);
      // Only the version proves that what was known still holds; a decision to do nothing needs a fresh look.
      if (!change && trusted) continue;
      if (!change) return job;
      const now = this.clock.now();
      const steps = [...updateJob(job, change, now), ...(change.steps ?? [])];
      if ((await this.store.commit(steps)).applied) return patched(job, change, now);
    }
    throw tooBusy();
  }

  /** Brings a fact to a job. `applied: false`: it no longer fits, and nothing changed. */
  async bring(
    id: string,
    fact: Fact,
    steps?: (job: Job) => Step[],
    known?: Job,
  ): Promise<{ job: Job; applied: boolean; refusal?: Extract<Verdict, { refused: string }> }> {
    let refusal: Extract<Verdict, { refused: string }> | undefined;
    let before: Job | undefined;
    const choose = (present: Job): Change | undefined => {
      before = present;
      const verdict = decide(present, fact, this.clock.now());
      refusal = isRefused(verdict) ? verdict : undefined;
      if (isRefused(verdict)) return undefined;
      if (verdict.events.length === 0 && Object.keys(verdict.patch).length === 0) return undefined;
      return steps ? { ...verdict, steps: steps(present) } : verdict;
    };
    const job = await this.change(id, choose, known);
    if (this.tracer && before && !refusal) recordAttempt(this.tracer, before, fact, job);
    return refusal ? { job, applied: false, refusal } : { job, applied: true };
  }

  /** Hands out waiting attempts of these queues to a holder; they are running when this resolves. */
  async claim(request: {
    queues: readonly { name: string; limit?: number }[];
    limit: number;
    holder: string;
    node: string | null;
    leaseMs: number;
    stage?: string;
    accept?: (job: Job) => boolean;
    /** How many refused jobs to look past; every one is read. */
    lookahead?: number;
    steps?: (job: Job) => Step[];
  }): Promise<Job[]> {
    if (!this.admits()) return [];
    const now = this.clock.now();
    const started = new Map<string, Job>();
    const unusable: string[] = [];
    const plan = (candidate: Candidate): ClaimPlan => {
      // Where the row comes with the candidate there is nothing to save.
      if (!candidate.unread) this.recent.stop();
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
      const verdict = decide(job, fact, now);
      // Its time to live is over: the sweep ends it, and its entry with it.
      if (isRefused(verdict)) return { take: false };
      started.set(candidate.attemptId, patched(job, verdict, now));
      return {
        take: true,
        steps: [...updateJob(job, verdict, now), ...(request.steps?.(job) ?? [])],
      };
    };
    const lookahead = request.lookahead ?? (request.accept ? 50 : 0);
    const { queues, limit, holder, leaseMs } = request;
    const taken = await this.store.claim({ queues, limit, holder, leaseMs, now, lookahead }, plan);
    // They must not stay at the head of the queue: those behind them could never run.
    for (const id of unusable) await this.conclude(id, { type: 'undecodable' });
    if (taken.length === 0 && unusable.length > 0) return this.claim(request);
    return taken.map(({ attemptId }) => started.get(attemptId)!);
  }

  /**
   * The end of an attempt, from whoever ran it (with the job as `known` to it, where it has it). False: that attempt
   * was over already, and nothing changed.
   */
  async finish(
    attempt: { jobId: string; attemptId: string; known?: Job },
    outcome: Outcome,
    steps?: (job: Job) => Step[],
  ): Promise<{ job: Job; applied: boolean }> {
    const fact: Fact = {
      type: 'ended',
      attemptId: attempt.attemptId,
      outcome: storable(outcome),
      random: Math.random(),
    };
    return this.conclude(attempt.jobId, fact, steps, attempt.known);
  }

  async lose(
    attempt: { jobId: string; attemptId: string },
    message?: string,
  ): Promise<{ job: Job; applied: boolean }> {
    const why = message === undefined ? {} : { message };
    const fact: Fact = {
      type: 'lost',
      attemptId: attempt.attemptId,
      random: Math.random(),
      ...why,
    };
    return this.conclude(attempt.jobId, fact);
  }

  /** Queued jobs end at once; running ones are told to stop (listeners reach whoever runs them). */
  async cancel(id: string, by: string, reason?: string, graceMs?: number): Promise<Job> {
    const why = reason === undefined ? {} : { reason };
    const grace = graceMs === undefined ? {} : { graceMs };
    const { job, applied } = await this.conclude(id, { type: 'cancel', by, ...why, ...grace });
    if (applied && !isFinal(job.status)) for (const listener of this.cancelListeners) listener(job);
    return job;
  }

  async forceCancel(id: string): Promise<Job> {
    return (await this.conclude(id, { type: 'forceCancel' })).job;
  }

  async expire(id: string): Promise<void> {
    await this.conclude(id, { type: 'expired' });
  }

  onCancel(listener: (job: Job) => void): () => void {
    this.cancelListeners.add(listener);
    return () => this.cancelListeners.delete(listener);
  }

  /** `steps`: what else happens in the same transaction. */
  async retry(id: string, by: string, steps?: (job: Job) => Step[]): Promise<Job> {
    const before = await this.get(id);
    if (!this.kind(before.kind).retryable) {
      throw new AppError('wrongState', `Jobs of kind ${before.kind} are never run again.`);
    }
    await refuseUnmetDependencies(this.ledger, id);
    const { job, refusal } = await this.bring(id, { type: 'retry', by }, steps);
    if (refusal) {
      throw new AppError('wrongState', refusal.message, {
        hint: 'get_job shows its status; only failed, timed_out and cancelled jobs can be retried.',
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

  /** Brings a fact that may be the end of the job; who waited for that end hears of it. */
  private async conclude(
    ...fact: Parameters<Jobs['bring']>
  ): Promise<{ job: Job; applied: boolean }> {
    const answer = await this.bring(...fact);
    if (answer.applied && isFinal(answer.job.status)) await this.releaseDependents(answer.job);
    return answer;
  }

  /** After an end: jobs that waited for it run, or end too. The sweep finds those a crash left here. */
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
      const verdict = decide(present, fact, this.clock.now());
      if (isRefused(verdict)) return undefined;
      applied = true;
      // Rows of dependencies that were met go; one that failed stays, so that a retry knows of it.
      const forget: Step = {
        sql: 'DELETE FROM dependencies WHERE job_id = ? AND after_id = ?',
        params: [jobId, ended.id],
        expect: 1,
      };
      return { ...verdict, steps: met ? [forget] : [] };
    }).catch(ignoreMissing);
    if (job && applied && isFinal(job.status)) await this.releaseDependents(job);
  }

  /** Makes a queue known (and its settings changeable) before anything waits in it. */
  async ensureQueue(kind: string, name: string): Promise<void> {
    if (this.knownQueues.has(queueKey(kind, name))) return;
    await this.store.commit([queueStep(kind, name, this.clock.now())]);
    this.knownQueues.add(queueKey(kind, name));
  }

  async setQueue(kind: string, name: string, settings: QueueSettings): Promise<void> {
    await this.ensureQueue(kind, name);
    await this.store.commit(queueSettingSteps(kind, name, settings));
  }

  /** The same key twice in one call is one job, as it would be in two calls. */
  private async planAll(submissions: readonly Submission[]): Promise<Plan[]> {
    const byKey = new Map<string, Plan>();
    const plans: Plan[] = [];
    for (const submission of submissions) {
      const key = submission.idempotencyKey && `${submission.owner}\n${submission.idempotencyKey}`;
      const before = key ? byKey.get(key) : undefined;
      if (before) {
        const job = sameOrConflict(before.job, submission);
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
      if (before) return { job: sameOrConflict(before, submission), existing: true, steps: [] };
    }
    const dependencies = await openDependencies(this.ledger, submission);
    const job = newJob(submission, {
      now: this.clock.now(),
      hash,
      waitingFor: dependencies.length,
    });
    const steps = insertJob(job, firstEvents(job, eventName(kind, job)));
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

function tooBusy(): AppError {
  return new AppError('unavailable', 'The job changed too often at once.', { hint: 'Try again.' });
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'notFound') return undefined;
  throw error;
}
