// The same idempotency key with the same body is the same job; with another body it is a conflict.
import { createHash } from 'node:crypto';
import { AppError } from '../errors.ts';
import { canonicalJson } from '../runtime/json.ts';
import type { Job } from './job.ts';
import type { Submission } from './submission.ts';

/** The same body means: everything the caller asked for, not who or when. */
export function bodyHash({
  idempotencyKey: _key,
  steps: _steps,
  owner: _owner,
  id: _id,
  idempotencyBody,
  ...body
}: Submission): string {
  return createHash('sha256')
    .update(canonicalJson(idempotencyBody ?? body))
    .digest('hex');
}

/** Names the job only where the caller may submit the same sort of work: keys may be limited to kinds and queues. */
export function sameOrConflict(job: Job, submission: Submission): Job {
  if (job.idempotencyHash === bodyHash(submission)) return job;
  const { kind, queue = 'default' } = submission;
  const isReached = job.kind === kind && job.queue === queue;
  throw new AppError(
    'idempotencyConflict',
    `The idempotency key was used for ${isReached ? job.id : 'another job'} with another body.`,
    {
      hint: 'Use a new key for new work; send the same body again to get the same job.',
      ...(isReached ? { data: { jobId: job.id } } : {}),
    },
  );
}
