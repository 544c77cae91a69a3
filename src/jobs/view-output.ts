// The job view that waits return: the view and an excerpt of the output for the next decision.
import { AppError } from '../errors.ts';
import type { Caller } from '../operation.ts';
import { isRecord } from '../runtime/json.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { viewJob } from './view.ts';
import type { JobView } from '../contracts/jobs.ts';
import { stateLine } from './wait-progress.ts';

const maxExcerptBytes = 2000;
/** Maximum output in one response without a byte limit. */
const maxOutputBytes = 100_000;
/** Maximum share of a response that the output of all jobs may use. */
const outputShare = 0.5;

/** Excerpt size for each of several jobs. */
export function excerptBytes(jobs: number, maxResponseBytes = maxOutputBytes): number {
  return Math.min(
    maxExcerptBytes,
    Math.floor((maxResponseBytes * outputShare) / Math.max(jobs, 1)),
  );
}

export async function viewWithOutput(
  jobs: Jobs,
  job: Job,
  {
    now,
    caller,
    maxBytes = maxExcerptBytes,
  }: { now: number; caller?: Caller | undefined; maxBytes?: number },
): Promise<JobView> {
  const view = await viewJob(jobs, job, now, caller);
  if (!isFinal(job.status))
    return { ...view, latestLine: await stateLine(jobs, job), ...expectedRemaining(view) };
  return {
    ...view,
    ...(await excerptOrError(() => jobs.findKind(job.kind)?.excerpt?.(job, maxBytes))),
  };
}

/** How much longer the job runs if it takes as long as earlier runs of the same work. */
function expectedRemaining({ history, timings }: JobView): { expectedRemainingMs?: number } {
  const expectedMs = isRecord(history) ? history.expectedMs : undefined;
  const leftMs = typeof expectedMs === 'number' ? expectedMs - (timings.runMs ?? 0) : 0;
  return leftMs > 0 ? { expectedRemainingMs: Math.round(leftMs) } : {};
}

/** The output may be on an unreachable node. The outcome of the job is still known. */
export async function excerptOrError<T>(
  read: () => Promise<T | undefined> | undefined,
): Promise<{ output?: T; outputError?: string }> {
  try {
    const output = await read();
    return output === undefined ? {} : { output };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { outputError: [error.message, error.hint].filter(Boolean).join(' ') };
  }
}
