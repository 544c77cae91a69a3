// Jobs as the protocol's tasks and resources: state, end, list, changes. It reaches jobs only through the job
// operations, found by name, and reads from their output no more than the fields named here.
import type { CallContext, Operation, Operations } from '../../operation.ts';
import { AppError } from '../../errors.ts';
import type { Clock } from '../../runtime/clock.ts';
import { operationAnswer } from './table.ts';
import { isOver, type Answer, type Page, type TaskState, type TaskStatus } from './source.ts';

/** The part of get_job's output that this face understands. */
export interface JobView {
  id: string;
  status: string;
  kind?: string;
  stage?: string | null;
  name?: string | null;
  summary?: string | null;
  progress?: { done?: number; total?: number; unit?: string; message?: string } | null;
  ready?: boolean | null;
  /** In lists beside the rest, in the view of one job among the timings. */
  createdAt?: string;
  updatedAt?: string;
  timings?: { createdAt: string; startedAt?: string; finishedAt?: string };
}

export interface JobsOptions {
  operations: Operations;
  clock: Clock;
}

const tasksPerPage = 50;
const startersMax = 10_000;
/** Without an event in this time the job is looked at again: what has no event is late by this. */
const lookEveryMs = 2000;
const cancelWaitMs = 10_000;

const finals = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

export class JobTasks {
  private readonly operations: Operations;
  private readonly clock: Clock;
  /** Which operation started a job: the shape of its answer. Only a shortcut, `answerFor` finds it again. */
  private readonly starters = new Map<string, Operation>();

  constructor(options: JobsOptions) {
    this.operations = options.operations;
    this.clock = options.clock;
  }

  started(jobId: string, operationName: string): void {
    const operation = this.operations.find(operationName);
    if (!operation) return;
    if (this.starters.size >= startersMax) this.starters.delete(this.starters.keys().next().value!);
    this.starters.set(jobId, operation);
  }

  async view(id: string, context: CallContext): Promise<JobView | undefined> {
    try {
      return await this.operations.call<JobView>('get_job', { id }, context);
    } catch (error) {
      if (error instanceof AppError && unknownJob.has(error.code)) return undefined;
      throw error;
    }
  }

  async task(id: string, context: CallContext): Promise<TaskState | undefined> {
    const job = await this.view(id, context);
    if (!job) return undefined;
    const state = taskState(job);
    if (state.status === 'cancelled') return state;
    const { jobId, ...answer } = await this.answer(job, context);
    if (jobId && !finals.has(job.status)) return state;
    return { ...state, status: 'completed', answer };
  }

  /** What the tool that started the job would answer now. */
  private async answer(job: JobView, context: CallContext): Promise<Answer> {
    const starter = this.starters.get(job.id);
    const candidates = starter
      ? [starter]
      : this.operations.list().filter((each) => each.answerFor);
    for (const operation of candidates) {
      const output = await this.operations.answerFor(operation, job.id, context);
      if (output !== undefined) return operationAnswer(operation, output);
    }
    const { jobId: _, ...answer } = operationAnswer(this.operations.get('get_job'), job);
    return finals.has(job.status) || job.ready ? answer : { ...answer, jobId: job.id };
  }

  async settled(id: string, context: CallContext): Promise<TaskState | undefined> {
    const looked = new AbortController();
    const changes = new Signal();
    void this.watch(id, () => changes.set(), context, looked.signal);
    try {
      for (;;) {
        const state = await this.task(id, context);
        if (!state || isOver(state.status) || context.signal.aborted) return state;
        await Promise.race([changes.wait(), this.clock.sleep(lookEveryMs, context.signal)]);
      }
    } finally {
      looked.abort();
    }
  }

  async cancel(id: string, context: CallContext): Promise<TaskState | undefined> {
    const before = await this.task(id, context);
    if (!before || isOver(before.status)) return before;
    try {
      await this.operations.call('cancel_job', { id }, context);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'wrongState') throw error;
    }
    const limit = new AbortController();
    const taken = this.clock.after(cancelWaitMs, () => limit.abort());
    const signal = AbortSignal.any([context.signal, limit.signal]);
    return this.settled(id, { ...context, signal }).finally(taken);
  }

  async list(
    cursor: string | undefined,
    context: CallContext,
    limit = tasksPerPage,
  ): Promise<Page<JobView>> {
    const input = { limit, ...(cursor ? { cursor } : {}) };
    const page = await this.operations.call<{ jobs: JobView[]; nextCursor?: string | null }>(
      'list_jobs',
      input,
      context,
    );
    return { items: page.jobs, ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}) };
  }

  /** Calls back at each event of the job from now on; ends with the signal, or when the job is unknown. */
  async watch(
    id: string,
    changed: () => void,
    context: CallContext,
    signal: AbortSignal,
  ): Promise<void> {
    const following = { ...context, signal: AbortSignal.any([context.signal, signal]) };
    const start = this.clock.now();
    let after = 0;
    while (!following.signal.aborted) {
      try {
        for await (const item of this.operations.stream('list_events', { id, after }, following)) {
          if (following.signal.aborted) return;
          const event = item.data as { n: number; at: string };
          after = event.n;
          if (Date.parse(event.at) >= start) changed();
        }
      } catch (error) {
        if (error instanceof AppError || following.signal.aborted) return;
        throw error;
      }
      // The stream ends with the job; only a retry could bring news.
      await this.clock.sleep(lookEveryMs, following.signal);
    }
  }
}

const unknownJob = new Set(['notFound', 'gone', 'invalidInput', 'forbidden', 'unauthorized']);

/** A job that failed is a completed task: the tool did its work. */
export function taskState(job: JobView): TaskState {
  const { timings } = job;
  const createdAt = timings?.createdAt ?? job.createdAt ?? new Date(0).toISOString();
  return {
    id: job.id,
    status: statusOf(job.status),
    message: statusMessage(job),
    createdAt,
    updatedAt: timings?.finishedAt ?? timings?.startedAt ?? job.updatedAt ?? createdAt,
  };
}

function statusOf(status: string): TaskStatus {
  if (status === 'cancelled' || status === 'input_required') return status;
  return finals.has(status) ? 'completed' : 'working';
}

/** Repeats the id: clients show this line to models that have forgotten the task's id. */
function statusMessage(job: JobView): string {
  const { progress } = job;
  const count = progress?.done === undefined ? '' : progressCount(progress);
  const parts = [job.stage, count, progress?.message].filter(Boolean);
  return `${job.id} ${job.status}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`;
}

function progressCount(progress: NonNullable<JobView['progress']>): string {
  const total = progress.total === undefined ? '' : `/${progress.total}`;
  return `${progress.done}${total}${progress.unit ? ` ${progress.unit}` : ''}`;
}

/** Remembers that something happened until somebody waits for it. */
class Signal {
  private happened = false;
  private wake: (() => void) | undefined;

  set(): void {
    this.happened = true;
    this.wake?.();
  }

  async wait(): Promise<void> {
    if (!this.happened) await new Promise<void>((resolve) => (this.wake = resolve));
    this.happened = false;
    this.wake = undefined;
  }
}
