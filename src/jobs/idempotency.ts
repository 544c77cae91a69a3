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

export function sameOrConflict(job: Job, hash: string): Job {
  if (job.idempotencyHash === hash) return job;
  throw new AppError(
    'idempotencyConflict',
    `The idempotency key was used for ${job.id} with another body.`,
    {
      hint: 'Use a new key for new work; send the same body again to get the same job.',
      data: { jobId: job.id },
    },
  );
}
