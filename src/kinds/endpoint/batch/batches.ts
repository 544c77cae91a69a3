// Batches: thousands of jobs under one parent. The parent is a job of kind `batch` without work of its own: a draft while
// requests are added, then running until its last job is over. Queueing a large batch goes on after a crash.
import { AppError, errorKind } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { type Jobs } from '../../../jobs/jobs.ts';
import { unknownJob } from '../../../jobs/dependencies.ts';
import type { Kind } from '../../../jobs/kind.ts';
import { isOwn } from '../../../jobs/view.ts';
import type { Caller } from '../../../operation.ts';
import { nextTurn, type Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { Endpoints } from '../endpoints.ts';
import type { Intake, RunWish } from '../intake.ts';
import type { EndpointRow } from '../store.ts';
import type { Step } from '../../../store/store.ts';
import { draftsOf, wishOf } from './drafts.ts';
import type { BatchStore } from './store.ts';

export const requestsMax = 50_000;
const activeMax = 100;
/** Jobs queued in one transaction. */
const queueAtOnce = 500;
const everyMs = 500;
/** After counting, it rests for so many times as long as that took. */
const restFactor = 20;
const restMsMax = 3000;
/** A retry and an end at once leave the number of ended jobs as it was: now and then it is counted anyway. */
const recountMs = 30_000;

export interface BatchCounts {
  total: number;
  queued: number;
  running: number;
  completed: number;
  failed: number;
  cancelled: number;
}

export interface BatchesNeeds {
  jobs: Jobs;
  store: BatchStore;
  endpoints: Endpoints;
  intake: Intake;
  clock: Clock;
  log: Log;
}

/** When an open batch was last counted. */
interface Look {
  /** Jobs of its endpoint that were over then. */
  ended: number;
  nextAt: number;
}

export class Batches implements Service {
  readonly name = 'endpoint batches';
  readonly kind: Kind;
  private readonly needs: BatchesNeeds;
  private readonly loop: Loop;
  private off = () => {};
  private looks = new Map<string, Look>();
  private readonly queueing = new Map<string, Promise<void>>();

  constructor(needs: BatchesNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.look() });
    this.kind = {
      name: 'batch',
      partOf: 'endpoint',
      belongsTo: (job, subject) => subject === `endpoint:${job.queue}`,
      dispatched: false,
      retryable: false,
      cancellable: true,
      capacity: () => 0,
      view: async (job) => ({ endpointId: job.queue, counts: await this.counts(job) }),
      summary: (job) => `batch on ${job.queue}`,
    };
  }

  async start(): Promise<void> {
    this.off = this.needs.jobs.onCancel((job) => {
      if (job.kind === 'batch') this.loop.wake();
    });
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.loop.stop();
  }

  async create(wish: {
    endpoint: EndpointRow;
    owner: string;
    requests: readonly RunWish[];
    name?: string;
    idempotencyKey?: string;
    /** Queue it now; else it stays a draft. */
    finalize: boolean;
  }): Promise<Job> {
    const { jobs, store } = this.needs;
    const { endpoint, owner, requests, name, idempotencyKey } = wish;
    await this.refuseTooMany(endpoint.id, requests.length);
    const { job } = await jobs.submit({
      kind: 'batch',
      queue: endpoint.id,
      owner,
      // The requests themselves are rows of their own.
      input: { requests: requests.length },
      idempotencyBody: { endpointId: endpoint.id, name, requests },
      status: wish.finalize ? 'running' : 'input_required',
      stage: wish.finalize ? 'finalized' : 'draft',
      ...(name === undefined ? {} : { name }),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      steps: (made) => store.addDrafts(made.id, draftsOf(requests, 0)),
    });
    if (wish.finalize) await this.queue(job);
    return job;
  }

  /** All of the change or none of it: one transaction. */
  async change(
    id: string,
    wanted: {
      add: readonly RunWish[];
      remove: string | undefined;
      name: string | undefined;
      finalize: boolean;
    },
  ): Promise<{ batch: Job; added: string[] }> {
    const { jobs, store } = this.needs;
    const { add, remove, name, finalize } = wanted;
    let added: string[] = [];
    const batch = await jobs.change(id, async (present) => {
      if (add.length > 0 || remove !== undefined) this.refuseUnlessDraft(present);
      const { count, last } = await store.draftCount(id);
      if (add.length > 0) this.refuseTooLarge(count + add.length);
      if (remove !== undefined && !(await store.hasDraft(id, remove))) throw unknownJob(remove);
      const isQueued = finalize && present.stage !== 'finalized';
      if (isQueued) this.refuseUnlessDraft(present);
      const drafts = draftsOf(add, last);
      added = drafts.map(({ jobId }) => jobId);
      const events = [
        ...(add.length > 0 ? [{ type: 'requestsAdded', data: { count: add.length } }] : []),
        ...(remove === undefined ? [] : [{ type: 'requestRemoved', data: { jobId: remove } }]),
        ...(name === undefined ? [] : [{ type: 'renamed', data: { name } }]),
        ...(isQueued ? [{ type: 'progress', data: { stage: 'finalized' } }] : []),
      ];
      if (events.length === 0) return undefined;
      return {
        patch: {
          ...(name === undefined ? {} : { name }),
          ...(isQueued ? { status: 'running', stage: 'finalized' } : {}),
        },
        events,
        intents: [],
        steps: [
          ...store.addDrafts(id, drafts),
          ...(remove === undefined ? [] : [store.removeDraft(id, remove)]),
        ],
      };
    });
    if (finalize) await this.queue(batch);
    return { batch, added };
  }

  /** A batch the caller may see; else it looks unknown. */
  async get(id: string, caller: Caller | undefined, endpointId?: string): Promise<Job> {
    const { jobs } = this.needs;
    const job = await jobs.ledger.find(id);
    if (job?.kind !== 'batch' || !(await isOwn(jobs, job, caller))) throw unknownJob(id);
    if (endpointId !== undefined && job.queue !== endpointId) throw unknownJob(id);
    return job;
  }

  async counts(batch: Job): Promise<BatchCounts> {
    const { store } = this.needs;
    const by = await store.counts(batch.id);
    const { count: drafts } = await store.draftCount(batch.id);
    const failed = (by.failed ?? 0) + (by.timed_out ?? 0);
    const queued = (by.queued ?? 0) + drafts;
    const running = (by.running ?? 0) + (by.input_required ?? 0);
    const { completed = 0, cancelled = 0 } = by;
    const total = queued + running + completed + failed + cancelled;
    return { total, queued, running, completed, failed, cancelled };
  }

  /** Jobs of a batch in order; of a draft, its requests. */
  async children(batch: Job, page: { offset: number; limit: number }): Promise<Job[]> {
    const { jobs, store } = this.needs;
    const ids = await store.childIds(batch.id, page);
    const found = new Map((await jobs.ledger.findMany(ids)).map((job) => [job.id, job]));
    return ids.flatMap((id) => found.get(id) ?? []);
  }

  drafts(batch: Job, page: { offset: number; limit: number }) {
    return this.needs.store.drafts(batch.id, page.offset + page.limit);
  }

  private async look(): Promise<void> {
    const { jobs, store } = this.needs;
    const open = await store.openBatches();
    const ended = new Map<string, number>();
    for (const queue of new Set(open.map(({ queue: name }) => name)))
      ended.set(queue, await this.endedJobs(queue));
    const seen = new Map<string, Look>();
    for (const { id, queue, cancelRequestedAt } of open) {
      const before = this.looks.get(id);
      seen.set(id, before ?? { ended: -1, nextAt: 0 });
      try {
        if (cancelRequestedAt !== null) await this.cancel(await jobs.get(id));
        else if (this.isDue(before, ended.get(queue)!)) {
          seen.set(id, await this.lookAt(id, ended.get(queue)!));
          // Counts of a hundred large batches in one go would hold up every worker that asks for work.
          await nextTurn();
        }
      } catch (error) {
        // The other batches must not wait for this one.
        this.needs.log.error('a batch could not be moved', { batchId: id, error });
      }
    }
    this.looks = seen;
  }

  /** Counting the jobs of a large batch is work: only when some job of its endpoint ended, and not all the time. */
  private isDue(before: Look | undefined, ended: number): boolean {
    const now = this.needs.clock.now();
    if (!before || now >= before.nextAt + recountMs) return true;
    return before.ended !== ended && now >= before.nextAt;
  }

  private async lookAt(id: string, ended: number): Promise<Look> {
    const { jobs, clock } = this.needs;
    const batch = await jobs.get(id);
    if (batch.stage !== 'finalized') return { ended: -1, nextAt: 0 };
    await this.queue(batch);
    const startedAt = clock.now();
    await this.advance(batch);
    const now = clock.now();
    return { ended, nextAt: now + Math.min((now - startedAt) * restFactor, restMsMax) };
  }

  private async endedJobs(queue: string): Promise<number> {
    const counts = await this.needs.jobs.store.counters(`queue:endpoint:${queue}`);
    const { completed = 0, failed = 0, cancelled = 0, timed_out: timedOut = 0 } = counts;
    return completed + failed + cancelled + timedOut;
  }

  private async advance(batch: Job): Promise<void> {
    const counts = await this.counts(batch);
    const done = counts.completed + counts.failed + counts.cancelled;
    if (done === (batch.progress?.done ?? 0) && done < counts.total) return;
    const progress = { done, total: counts.total, unit: 'requests' };
    await this.needs.jobs.change(batch.id, (present) => {
      if (isFinal(present.status)) return undefined;
      if (done < counts.total)
        return {
          patch: { progress },
          events: [{ type: 'progress', data: { progress } }],
          intents: [],
        };
      return this.ended('completed', progress, counts);
    });
  }

  /** Waiting requests never run; running ones finish. */
  private async cancel(batch: Job): Promise<void> {
    const { jobs, store } = this.needs;
    await store.store.commit([store.removeDrafts(batch.id, Number.MAX_SAFE_INTEGER)]);
    for (;;) {
      const page = { offset: 0, limit: queueAtOnce, status: 'queued' };
      const ids = await store.childIds(batch.id, page);
      if (ids.length === 0) break;
      await Promise.all(ids.map((id) => jobs.cancel(id, batch.owner, 'Its batch was cancelled.')));
    }
    const counts = await this.counts(batch);
    const done = counts.completed + counts.failed + counts.cancelled;
    const progress = { done, total: counts.total, unit: 'requests' };
    await jobs.change(batch.id, (present) =>
      isFinal(present.status) ? undefined : this.ended('cancelled', progress, counts),
    );
  }

  private ended(
    status: 'completed' | 'cancelled',
    progress: { done: number; total: number; unit: string },
    counts: BatchCounts,
  ) {
    const finishedAt = this.needs.clock.now();
    return {
      patch: { status, progress, result: counts, finishedAt },
      events: [{ type: status, data: { ...counts } }],
      intents: [],
    };
  }

  /** One at a time: the call that made the batch and the loop that finds it must not queue the same piece. */
  private queue(batch: Job): Promise<void> {
    let queueing = this.queueing.get(batch.id);
    if (!queueing) {
      queueing = this.queueDrafts(batch).finally(() => this.queueing.delete(batch.id));
      this.queueing.set(batch.id, queueing);
    }
    return queueing;
  }

  /** From drafts to jobs, a piece at a time; a piece and its drafts move in one transaction. */
  private async queueDrafts(batch: Job): Promise<void> {
    const { store, endpoints, jobs } = this.needs;
    const endpoint = await endpoints.find(batch.queue);
    for (;;) {
      const drafts = await store.drafts(batch.id, queueAtOnce);
      if (drafts.length === 0) return;
      const upTo = drafts.at(-1)!.n;
      if (!endpoint) {
        await jobs.cancel(batch.id, batch.owner, 'Its endpoint was deleted.');
        return;
      }
      const present = await jobs.ledger.findMany(drafts.map(({ jobId }) => jobId));
      const known = new Set(present.map(({ id }) => id));
      const wishes = drafts
        .filter(({ jobId }) => !known.has(jobId))
        .map((draft) => wishOf(draft, batch.id));
      const done = () => [store.removeDrafts(batch.id, upTo)];
      if (wishes.length === 0) await store.store.commit(done());
      else await this.submitAll(endpoint, batch.owner, wishes, done);
    }
  }

  /** A request that cannot be queued becomes a failed job of the batch: the others must not wait for it. */
  private async submitAll(
    endpoint: EndpointRow,
    owner: string,
    wishes: readonly RunWish[],
    steps: () => Step[],
  ): Promise<void> {
    const { intake } = this.needs;
    try {
      await intake.submitMany(endpoint, owner, wishes, steps);
    } catch (error) {
      if (!(error instanceof AppError) || errorKind(error.code).retryable) throw error;
      const { code, message, hint } = error;
      if (wishes.length === 1) {
        const { idempotencyKey: _key, webhook: _webhook, ...wish } = wishes[0]!;
        const failed = { code, message, ...(hint === undefined ? {} : { hint }) };
        await intake.submitMany(endpoint, owner, [{ ...wish, failed }], steps);
        return;
      }
      for (const [i, wish] of wishes.entries())
        await this.submitAll(endpoint, owner, [wish], i === wishes.length - 1 ? steps : () => []);
    }
  }

  private async refuseTooMany(endpointId: string, count: number): Promise<void> {
    this.refuseTooLarge(count);
    const { jobs } = this.needs;
    const counts = await jobs.store.counters(`queue:batch:${endpointId}`);
    if ((counts.running ?? 0) + (counts.input_required ?? 0) < activeMax) return;
    throw new AppError('limitExceeded', `${endpointId} has ${activeMax} open batches already.`, {
      hint: 'Wait until some are over, finalize drafts or cancel them.',
      data: { limit: 'activeMax', retryAfterMs: 10_000 },
    });
  }

  private refuseTooLarge(count: number): void {
    if (count <= requestsMax) return;
    throw new AppError('tooLarge', `A batch holds at most ${requestsMax} requests.`, {
      hint: 'Split it into several batches.',
      data: { limit: 'requestsMax' },
    });
  }

  private refuseUnlessDraft(batch: Job): void {
    if (batch.stage === 'draft' && !isFinal(batch.status)) return;
    throw new AppError('wrongState', `The batch ${batch.id} is not a draft any more.`, {
      hint: 'Make a new batch for further requests.',
    });
  }
}
