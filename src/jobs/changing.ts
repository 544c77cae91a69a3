// Applies one action to many jobs. Each job follows the rules of the operation for one job; a job that does not allow the
// action is skipped with a reason.
import { AppError } from '../errors.ts';
import type { Status } from '../contracts/jobs.ts';
import { brokenStatuses, isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import type { Retention } from './retention.ts';

export const changeActions = ['cancel', 'retry', 'pin', 'unpin', 'delete'] as const;
export type ChangeAction = (typeof changeActions)[number];

/** What the action did to each job: changed it, or the reason why not. */
export interface ChangeCounts {
  matched: number;
  changed: number;
  skipped: Map<string, number>;
}

interface ChangeRequest {
  action: ChangeAction;
  filter: JobFilter;
  /** The owner who is recorded in the events. */
  by: string;
  /** Jobs submitted later are not changed. */
  maxSeq: number;
  /** A retry changes only jobs that have not changed since. A repeated run then retries no job twice. */
  since?: number;
  /** Only counts. */
  dryRun?: boolean;
  isVisible(job: Job): Promise<boolean>;
  /** Called after each page. */
  onPage?(counts: ChangeCounts): Promise<void>;
  signal?: AbortSignal;
}

interface ChangeDeps {
  jobs: Jobs;
  retention: Pick<Retention, 'forget'>;
}

const pageSize = 200;
const concurrency = 16;

export async function changeMatching(
  { jobs, retention }: ChangeDeps,
  request: ChangeRequest,
): Promise<ChangeCounts> {
  const counts: ChangeCounts = { matched: 0, changed: 0, skipped: new Map() };
  let before = request.maxSeq + 1;
  for (;;) {
    const page = await jobs.ledger.list(request.filter, { limit: pageSize, before });
    const waiting = [...page.jobs];
    const work = async () => {
      for (let job = waiting.shift(); job; job = waiting.shift()) {
        if (!(await request.isVisible(job))) continue;
        counts.matched += 1;
        const reason = await changeOne({ jobs, retention }, job, request);
        if (reason === undefined) counts.changed += 1;
        else counts.skipped.set(reason, (counts.skipped.get(reason) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    await request.onPage?.(counts);
    if (page.next === undefined || request.signal?.aborted) return counts;
    before = page.next;
  }
}

async function changeOne(
  { jobs, retention }: ChangeDeps,
  job: Job,
  request: ChangeRequest,
): Promise<string | undefined> {
  const reason = await skipReason(jobs, job, request);
  if (reason !== undefined || request.dryRun) return reason;
  try {
    if (request.action === 'cancel') await jobs.cancel(job.id, request.by);
    else if (request.action === 'retry') await jobs.retry(job.id, request.by);
    else if (request.action === 'delete')
      return (await retention.forget([job.id])) ? undefined : 'changed meanwhile';
    else await jobs.setPinned(job.id, request.action === 'pin');
    return undefined;
  } catch (error) {
    if (error instanceof AppError && error.code !== 'unavailable') return error.code;
    throw error;
  }
}

/** Why the action does not apply to the job in its current state. */
async function skipReason(
  jobs: Jobs,
  job: Job,
  { action, since }: ChangeRequest,
): Promise<string | undefined> {
  const kind = jobs.findKind(job.kind);
  switch (action) {
    case 'cancel':
      if (isFinal(job.status)) return 'ended';
      return kind?.cancellable === false ? 'not cancellable' : undefined;
    case 'retry':
      if (!(brokenStatuses as readonly Status[]).includes(job.status)) return `is ${job.status}`;
      if (kind?.retryable !== true) return 'not retryable';
      return since !== undefined && job.updatedAt >= since ? 'changed meanwhile' : undefined;
    case 'pin':
    case 'unpin':
      return job.pinned === (action === 'pin') ? `already ${action}ned` : undefined;
    case 'delete':
      return (await keptReason(jobs, job))?.reason;
  }
}

interface Kept {
  reason: string;
  message: string;
  hint: string;
}

/** Why a job cannot be deleted now, or undefined if it can. */
export async function keptReason(jobs: Jobs, job: Job): Promise<Kept | undefined> {
  const { id } = job;
  if (!isFinal(job.status))
    return {
      reason: 'not ended',
      message: `${id} has not ended: it is ${job.status}.`,
      hint: 'Stop it with cancel_job first.',
    };
  if (jobs.kind(job.kind).exemptFromRetention)
    return {
      reason: 'part of the accounts',
      message: `Jobs of kind ${job.kind} cannot be deleted.`,
      hint: 'Their postings are part of the accounts.',
    };
  if (job.pinned)
    return {
      reason: 'pinned',
      message: `${id} is pinned.`,
      hint: 'Unpin it first: pin_job with pinned false.',
    };
  const parent = job.parentId === null ? undefined : await jobs.ledger.find(job.parentId);
  if (parent && !isFinal(parent.status))
    return {
      reason: 'part of a job that has not ended',
      message: `${id} is part of ${parent.id}, which has not ended.`,
      hint: `Delete it when ${parent.id} has ended.`,
    };
  const [dependent] = await jobs.ledger.dependents(id);
  if (dependent === undefined) return undefined;
  return {
    reason: 'another job depends on it',
    message: `${dependent} depends on ${id}.`,
    hint: `Delete ${dependent} first.`,
  };
}
