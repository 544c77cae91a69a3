// Presents jobs as MCP tasks and resources: state, result, list and changes. It accesses jobs only through the job
// operations.
import type { CallContext, Operation, Operations } from '../../operation.ts';
import { cancelJob, getJob, listJobs, type JobLine, type JobView } from '../../contracts/jobs.ts';
import { AppError } from '../../errors.ts';
import type { Clock } from '../../runtime/clock.ts';
import { operationResult } from './toolsets.ts';
import { isOver, type ToolResult, type Page, type TaskState, type TaskStatus } from './source.ts';

/** A job as get_job or list_jobs returns it. */
type ShownJob = JobView | JobLine;

interface JobsOptions {
  operations: Operations;
  clock: Clock;
}

const tasksPerPage = 50;
const maxStarters = 10_000;
/** Jobs are also checked at this interval, because some changes have no event. */
const checkEveryMs = 2000;
const cancelWaitMs = 10_000;

const finalStatuses = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

export class JobTasks {
  private readonly operations: Operations;
  private readonly clock: Clock;
  /** The operation that started a job defines the form of its result. This is only a cache: `outputFor` finds it again. */
  private readonly starters = new Map<string, Operation>();

  constructor(options: JobsOptions) {
    this.operations = options.operations;
    this.clock = options.clock;
  }

  started(jobId: string, operationName: string): void {
    const operation = this.operations.find(operationName);
    if (!operation) return;
    if (this.starters.size >= maxStarters) this.starters.delete(this.starters.keys().next().value!);
    this.starters.set(jobId, operation);
  }

  async view(id: string, context: CallContext): Promise<JobView | undefined> {
    try {
      return await this.operations.call(getJob, { id }, context);
    } catch (error) {
      if (error instanceof AppError && unknownJobCodes.has(error.code)) return undefined;
      throw error;
    }
  }

  async task(id: string, context: CallContext): Promise<TaskState | undefined> {
    const job = await this.view(id, context);
    if (!job) return undefined;
    const state = taskState(job);
    if (state.status === 'cancelled') return state;
    const { jobId, ...result } = await this.currentResult(job, context);
    if (jobId && !finalStatuses.has(job.status)) return state;
    return { ...state, status: 'completed', result };
  }

  /** What the tool that started the job would return now. */
  private async currentResult(job: JobView, context: CallContext): Promise<ToolResult> {
    const starter = this.starters.get(job.id);
    const candidates = starter
      ? [starter]
      : this.operations.list().filter((each) => each.outputFor);
    for (const operation of candidates) {
      const output = await this.operations.outputFor(operation, job.id, context);
      if (output !== undefined) return operationResult(operation, output);
    }
    const { jobId: _, ...result } = operationResult(this.operations.get('get_job'), job);
    return finalStatuses.has(job.status) || job.ready ? result : { ...result, jobId: job.id };
  }

  async waitUntilOver(id: string, context: CallContext): Promise<TaskState | undefined> {
    const watching = new AbortController();
    const changes = new Signal();
    void this.watch(id, () => changes.set(), context, watching.signal);
    try {
      for (;;) {
        const state = await this.task(id, context);
        if (!state || isOver(state.status) || context.signal.aborted) return state;
        await Promise.race([changes.wait(), this.clock.sleep(checkEveryMs, context.signal)]);
      }
    } finally {
      watching.abort();
    }
  }

  async cancel(id: string, context: CallContext): Promise<TaskState | undefined> {
    const before = await this.task(id, context);
    if (!before || isOver(before.status)) return before;
    try {
      await this.operations.call(cancelJob, { id }, context);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'wrongState') throw error;
    }
    const limit = new AbortController();
    const cancelTimer = this.clock.after(cancelWaitMs, () => limit.abort());
    const signal = AbortSignal.any([context.signal, limit.signal]);
    return this.waitUntilOver(id, { ...context, signal }).finally(cancelTimer);
  }

  async list(
    cursor: string | undefined,
    context: CallContext,
    limit = tasksPerPage,
  ): Promise<Page<JobLine>> {
    const input = { limit, ...(cursor ? { cursor } : {}) };
    const page = await this.operations.call(listJobs, input, context);
    return { items: page.jobs, ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}) };
  }

  /** Calls `changed` at each new job event until the signal aborts or the job turns out not to exist. */
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
      // The stream ends with the job; only a retry adds events.
      await this.clock.sleep(checkEveryMs, following.signal);
    }
  }
}

const unknownJobCodes = new Set(['notFound', 'gone', 'invalidInput', 'forbidden', 'unauthorized']);

/** A failed job is a completed task: the tool itself worked. */
export function taskState(job: ShownJob): TaskState {
  const { createdAt, updatedAt } = isLine(job) ? job : timesOf(job);
  return {
    id: job.id,
    status: taskStatus(job.status),
    message: statusMessage(job),
    createdAt,
    updatedAt: updatedAt ?? createdAt,
  };
}

/** A line of a list has its times at the top. */
const isLine = (job: ShownJob): job is JobLine => !('timings' in job);

const timesOf = ({ timings: { createdAt, startedAt, finishedAt } }: JobView) => ({
  createdAt,
  updatedAt: finishedAt ?? startedAt,
});

function taskStatus(status: string): TaskStatus {
  if (status === 'cancelled' || status === 'input_required') return status;
  return finalStatuses.has(status) ? 'completed' : 'working';
}

/** Repeats the id, because clients show this line to models that no longer have the task id. */
function statusMessage(job: ShownJob): string {
  const progress = isLine(job) ? undefined : job.progress;
  const count = progress?.done === undefined ? '' : progressCount(progress);
  const parts = [job.stage, count, progress?.message ?? job.latestLine].filter(Boolean);
  return `${job.id} ${job.status}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`;
}

function progressCount(progress: NonNullable<JobView['progress']>): string {
  const total = progress.total === undefined ? '' : `/${progress.total}`;
  return `${progress.done}${total}${progress.unit ? ` ${progress.unit}` : ''}`;
}

/** Remembers that an event happened until `wait` is called. */
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
