// What a job asks of the dispatcher: put an attempt in line, take it out, settle it.
import type { Intent } from '../store/store.ts';
import type { Job } from './job.ts';

export function enqueue(job: Job, runAt: number): Intent {
  const { id: jobId, attemptId, kind, queue, priority } = job;
  return {
    dispatch: 'enqueue',
    entry: { attemptId, jobId, queue: queueKey(kind, queue), priority, runAt },
  };
}

export const settleOf = (job: Job): Intent => ({
  dispatch: 'settle',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

export const withdrawOf = (job: Job): Intent => ({
  dispatch: 'withdraw',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

/** A queue belongs to a kind: the dispatcher's name for it. */
export const queueKey = (kind: string, queue: string): string => `${kind}:${queue}`;

/** The counters of a queue: how many of its jobs are in each status. */
export const counterScope = (kind: string, queue: string): string =>
  `queue:${queueKey(kind, queue)}`;

/** How often the jobs of a queue began another attempt. */
export const retryScope = (kind: string, queue: string): string =>
  `retries:${queueKey(kind, queue)}`;
