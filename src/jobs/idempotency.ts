// Idempotency keys: the same key with the same body returns the same job; with a different body it is a conflict.
import { createHash } from 'node:crypto';
import { AppError } from '../errors.ts';
import { canonicalJson } from '../runtime/json.ts';
import type { Job } from './job.ts';
import type { Submission } from './submission.ts';

/** Hashes everything the caller asked for, but not who submitted it or when. */
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

/** The error names the job only if its kind and queue match, because API keys can be limited to kinds and queues. */
export function requireSameBody(job: Job, submission: Submission): Job {
  if (job.idempotencyHash === bodyHash(submission)) return job;
  const { kind, queue = 'default' } = submission;
  const isReached = job.kind === kind && job.queue === queue;
  throw new AppError(
    'idempotencyConflict',
    `The idempotency key was already used for ${isReached ? job.id : 'another job'} with a different body.`,
    {
      hint: 'Use a new key for new work, or send the same body to get the same job.',
      ...(isReached ? { data: { jobId: job.id } } : {}),
    },
  );
}
