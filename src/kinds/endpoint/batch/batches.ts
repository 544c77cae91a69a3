// Batches: thousands of jobs under one parent. The parent is a job of kind `batch` that runs nothing itself: a draft
// while requests are added, then running until its last job has ended. Queueing a large batch continues after a
// crash.
import { maxRequests } from '../contracts/batches.ts';
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
import type { JobSubmitter, RunRequest } from '../jobs/submitter.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import type { Step } from '../../../store/store.ts';
import { toDrafts, toRunRequest } from './drafts.ts';
import type { BatchStore } from '../store/batches.ts';

const maxActive = 100;
/** Jobs that are queued in one transaction. */
const chunkSize = 500;
const everyMs = 500;
/** After a count, the next one waits this many times as long as the count took. */
const restFactor = 20;
const maxRestMs = 3000;
/** A retry and an end together leave the number of ended jobs unchanged, so a recount is forced at this interval. */
const recountMs = 30_000;

interface BatchCounts {
  total: number;
  queued: number;
  running: number;
  completed: number;
  failed: number;
  cancelled: number;
}

interface BatchesDeps {
  jobs: Jobs;
  store: BatchStore;
  endpoints: Endpoints;
  submitter: JobSubmitter;
  clock: Clock;
  log: Log;
}

/** When an open batch was last counted. */
interface CountState {
  /** Ended jobs of its endpoint at that time. */
  ended: number;
  nextAt: number;
}

export class Batches implements Service {
  readonly name = 'endpoint batches';
  readonly kind: Kind;
  private readonly deps: BatchesDeps;
  private readonly loop: Loop;
  private off = () => {};
  private countStates = new Map<string, CountState>();
  private readonly queueing = new Map<string, Promise<void>>();

  constructor(deps: BatchesDeps) {
    this.deps = deps;
    const { clock, log } = deps;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.tick() });
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
    this.off = this.deps.jobs.onCancel((job) => {
      if (job.kind === 'batch') this.loop.wake();
    });
    await this.loop.start();
  }

  async stop(): Promise<void> {
    this.off();
    await this.loop.stop();
  }

  async create(request: {
    endpoint: EndpointRow;
    owner: string;
    requests: readonly RunRequest[];
    name?: string;
    idempotencyKey?: string;
    /** Queues it now. Otherwise it stays a draft. */
    finalize: boolean;
  }): Promise<Job> {
    const { jobs, store } = this.deps;
    const { endpoint, owner, requests, name, idempotencyKey } = request;
    await this.refuseTooMany(endpoint.id, requests.length);
    const { job } = await jobs.submit({
      kind: 'batch',
      queue: endpoint.id,
      owner,
      // The requests are stored in separate rows.
      input: { requests: requests.length },
      idempotencyBody: { endpointId: endpoint.id, name, requests },
      status: request.finalize ? 'running' : 'input_required',
      stage: request.finalize ? 'finalized' : 'draft',
      ...(name === undefined ? {} : { name }),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      steps: (made) => store.addDrafts(made.id, toDrafts(requests, 0)),
    });
    if (request.finalize) await this.queue(job);
    return job;
  }

  /** Applies the whole change or nothing, in one transaction. */
  async change(
    id: string,
    wanted: {
      add: readonly RunRequest[];
      remove: string | undefined;
      name: string | undefined;
      finalize: boolean;
    },
  ): Promise<{ batch: Job; added: string[] }> {
    const { jobs, store } = this.deps;
    const { add, remove, name, finalize } = wanted;
    let added: string[] = [];
    const batch = await jobs.change(id, async (present) => {
      if (add.length > 0 || remove !== undefined) this.refuseUnlessDraft(present);
      const { count, last } = await store.draftCount(id);
      if (add.length > 0) this.refuseTooLarge(count + add.length);
      if (remove !== undefined && !(await store.hasDraft(id, remove))) throw unknownJob(remove);
      const isQueued = finalize && present.stage !== 'finalized';
      if (isQueued) this.refuseUnlessDraft(present);
      const drafts = toDrafts(add, last);
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

  /** Returns a batch that the caller may see. Any other batch counts as unknown. */
  async get(id: string, caller: Caller | undefined, endpointId?: string): Promise<Job> {
    const { jobs } = this.deps;
    const job = await jobs.ledger.find(id);
    if (job?.kind !== 'batch' || !(await isOwn(jobs, job, caller))) throw unknownJob(id);
    if (endpointId !== undefined && job.queue !== endpointId) throw unknownJob(id);
    return job;
  }

  async counts(batch: Job): Promise<BatchCounts> {
    const { store } = this.deps;
    const by = await store.counts(batch.id);
    const { count: drafts } = await store.draftCount(batch.id);
    const failed = (by.failed ?? 0) + (by.timed_out ?? 0);
    const queued = (by.queued ?? 0) + drafts;
    const running = (by.running ?? 0) + (by.input_required ?? 0);
    const { completed = 0, cancelled = 0 } = by;
    const total = queued + running + completed + failed + cancelled;
    return { total, queued, running, completed, failed, cancelled };
  }

  /** Returns the jobs of a batch in order. */
  async children(batch: Job, page: { offset: number; limit: number }): Promise<Job[]> {
    const { jobs, store } = this.deps;
    const ids = await store.childIds(batch.id, page);
    const found = new Map((await jobs.ledger.findMany(ids)).map((job) => [job.id, job]));
    return ids.flatMap((id) => found.get(id) ?? []);
  }

  drafts(batch: Job, page: { offset: number; limit: number }) {
    return this.deps.store.drafts(batch.id, page.offset + page.limit);
  }

  private async tick(): Promise<void> {
    const { jobs, store } = this.deps;
    const open = await store.openBatches();
    const ended = new Map<string, number>();
    for (const queue of new Set(open.map(({ queue: name }) => name)))
      ended.set(queue, await this.endedJobs(queue));
    const seen = new Map<string, CountState>();
    for (const { id, queue, cancelRequestedAt } of open) {
      const before = this.countStates.get(id);
      seen.set(id, before ?? { ended: -1, nextAt: 0 });
      try {
        if (cancelRequestedAt !== null) await this.cancel(await jobs.get(id));
        else if (this.isDue(before, ended.get(queue)!)) {
          seen.set(id, await this.recount(id, ended.get(queue)!));
          // Counting a hundred large batches in a row would delay every worker that polls for work.
          await nextTurn();
        }
      } catch (error) {
        // One failing batch must not delay the others.
        this.deps.log.error('failed to advance a batch', { batchId: id, error });
      }
    }
    this.countStates = seen;
  }

  /**
   * Counting a large batch is expensive, so it happens only after a job of its endpoint has ended, and at a limited
   * rate.
   */
  private isDue(before: CountState | undefined, ended: number): boolean {
    const now = this.deps.clock.now();
    if (!before || now >= before.nextAt + recountMs) return true;
    return before.ended !== ended && now >= before.nextAt;
  }

  private async recount(id: string, ended: number): Promise<CountState> {
    const { jobs, clock } = this.deps;
    const batch = await jobs.get(id);
    if (batch.stage !== 'finalized') return { ended: -1, nextAt: 0 };
    await this.queue(batch);
    const startedAt = clock.now();
    await this.advance(batch);
    const now = clock.now();
    return { ended, nextAt: now + Math.min((now - startedAt) * restFactor, maxRestMs) };
  }

  private async endedJobs(queue: string): Promise<number> {
    const counts = await this.deps.jobs.store.counters(`queue:endpoint:${queue}`);
    const { completed = 0, failed = 0, cancelled = 0, timed_out: timedOut = 0 } = counts;
    return completed + failed + cancelled + timedOut;
  }

  private async advance(batch: Job): Promise<void> {
    const counts = await this.counts(batch);
    const done = counts.completed + counts.failed + counts.cancelled;
    if (done === (batch.progress?.done ?? 0) && done < counts.total) return;
    const progress = { done, total: counts.total, unit: 'requests' };
    await this.deps.jobs.change(batch.id, (present) => {
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

  /** Cancels waiting requests. Running ones finish. */
  private async cancel(batch: Job): Promise<void> {
    const { jobs, store } = this.deps;
    await store.store.commit([store.removeDrafts(batch.id, Number.MAX_SAFE_INTEGER)]);
    for (;;) {
      const page = { offset: 0, limit: chunkSize, status: 'queued' };
      const ids = await store.childIds(batch.id, page);
      if (ids.length === 0) break;
      await Promise.all(ids.map((id) => jobs.cancel(id, batch.owner, 'The batch was cancelled.')));
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
    const finishedAt = this.deps.clock.now();
    return {
      patch: { status, progress, result: counts, finishedAt },
      events: [{ type: status, data: { ...counts } }],
      intents: [],
    };
  }

  /** Prevents the call that created the batch and the loop that finds it from queueing the same chunk. */
  private queue(batch: Job): Promise<void> {
    let queueing = this.queueing.get(batch.id);
    if (!queueing) {
      queueing = this.queueDrafts(batch).finally(() => this.queueing.delete(batch.id));
      this.queueing.set(batch.id, queueing);
    }
    return queueing;
  }

  /** Turns drafts into jobs, chunk by chunk. A chunk and its drafts change in one transaction. */
  private async queueDrafts(batch: Job): Promise<void> {
    const { store, endpoints, jobs } = this.deps;
    const endpoint = await endpoints.find(batch.queue);
    for (;;) {
      const drafts = await store.drafts(batch.id, chunkSize);
      if (drafts.length === 0) return;
      const upTo = drafts.at(-1)!.n;
      if (!endpoint) {
        await jobs.cancel(batch.id, batch.owner, 'The endpoint was deleted.');
        return;
      }
      const present = await jobs.ledger.findMany(drafts.map(({ jobId }) => jobId));
      const known = new Set(present.map(({ id }) => id));
      const requests = drafts
        .filter(({ jobId }) => !known.has(jobId))
        .map((draft) => toRunRequest(draft, batch.id));
      const done = () => [store.removeDrafts(batch.id, upTo)];
      if (requests.length === 0) await store.store.commit(done());
      else await this.submitAll(endpoint, batch.owner, requests, done);
    }
  }

  /** A request that cannot be queued becomes a failed job of the batch, so that it does not block the others. */
  private async submitAll(
    endpoint: EndpointRow,
    owner: string,
    requests: readonly RunRequest[],
    steps: () => Step[],
  ): Promise<void> {
    const { submitter } = this.deps;
    try {
      await submitter.submitMany(endpoint, owner, requests, steps);
    } catch (error) {
      if (!(error instanceof AppError) || errorKind(error.code).retryable) throw error;
      const { code, message, hint } = error;
      if (requests.length === 1) {
        const { idempotencyKey: _key, webhook: _webhook, ...request } = requests[0]!;
        const failed = { code, message, ...(hint === undefined ? {} : { hint }) };
        await submitter.submitMany(endpoint, owner, [{ ...request, failed }], steps);
        return;
      }
      for (const [i, request] of requests.entries())
        await this.submitAll(
          endpoint,
          owner,
          [request],
          i === requests.length - 1 ? steps : () => [],
        );
    }
  }

  private async refuseTooMany(endpointId: string, count: number): Promise<void> {
    this.refuseTooLarge(count);
    const { jobs } = this.deps;
    const counts = await jobs.store.counters(`queue:batch:${endpointId}`);
    if ((counts.running ?? 0) + (counts.input_required ?? 0) < maxActive) return;
    throw new AppError(
      'limitExceeded',
      `Endpoint ${endpointId} already has ${maxActive} open batches.`,
      {
        hint: 'Wait until some have ended, or finalize or cancel drafts.',
        data: { limit: 'maxActive', retryAfterMs: 10_000 },
      },
    );
  }

  private refuseTooLarge(count: number): void {
    if (count <= maxRequests) return;
    throw new AppError('tooLarge', `A batch may contain at most ${maxRequests} requests.`, {
      hint: 'Split the requests into several batches.',
      data: { limit: 'maxRequests' },
    });
  }

  private refuseUnlessDraft(batch: Job): void {
    if (batch.stage === 'draft' && !isFinal(batch.status)) return;
    throw new AppError('wrongState', `Batch ${batch.id} is no longer a draft.`, {
      hint: 'Create a new batch for further requests.',
    });
  }
}
