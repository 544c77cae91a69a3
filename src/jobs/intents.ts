// The dispatcher changes that a job needs: enqueue, withdraw or settle an attempt.
import type { Intent } from '../store/store.ts';
import type { Job } from './job.ts';

export function enqueue(job: Job, runAt: number): Intent {
  const { id: jobId, attemptId, kind, queue, priority } = job;
  return {
    dispatch: 'enqueue',
    entry: { attemptId, jobId, queue: queueKey(kind, queue), priority, runAt },
  };
}

export const settleIntent = (job: Job): Intent => ({
  dispatch: 'settle',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

export const withdrawIntent = (job: Job): Intent => ({
  dispatch: 'withdraw',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

/** The dispatcher's name for a queue. Queues belong to a kind. */
export const queueKey = (kind: string, queue: string): string => `${kind}:${queue}`;

/** Scope of a queue's status counters. */
export const counterScope = (kind: string, queue: string): string =>
  `queue:${queueKey(kind, queue)}`;

/** Scope of the counter for further attempts of a queue's jobs. */
export const retryScope = (kind: string, queue: string): string =>
  `retries:${queueKey(kind, queue)}`;
