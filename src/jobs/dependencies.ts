// Checks a job's dependencies (`after`) before it is submitted or retried.
import { AppError } from '../errors.ts';
import { isFinal } from './job.ts';
import type { Ledger } from './ledger.ts';
import type { Submission } from './submission.ts';

/** The dependencies that have not ended yet. Throws if any of them can never be met. */
export async function openDependencies(ledger: Ledger, submission: Submission): Promise<string[]> {
  if (!submission.after || submission.after.length === 0) return [];
  const ids = [...new Set(submission.after)];
  const found = new Map((await ledger.findMany(ids)).map((job) => [job.id, job]));
  const open: string[] = [];
  for (const id of ids) {
    const job = found.get(id);
    if (!job || job.owner !== submission.owner) throw unknownJob(id);
    if (!isFinal(job.status)) open.push(id);
    else if (job.status !== 'completed') {
      throw new AppError(
        'wrongState',
        `The job cannot run after ${id}, which ended with status ${job.status}.`,
        {
          hint: `Retry ${id} first, or remove it from \`after\`.`,
        },
      );
    }
  }
  return open;
}

export async function refuseUnmetDependencies(ledger: Ledger, id: string): Promise<void> {
  const unmet = (await ledger.dependenciesOf(id)).find(({ status }) => status !== 'completed');
  if (!unmet) return;
  throw new AppError(
    'wrongState',
    `The job depends on ${unmet.afterId}, which is ${unmet.status}.`,
    {
      hint: `Retry it when ${unmet.afterId} has completed.`,
    },
  );
}

export function unknownJob(
  id: string,
  hint = 'An id is job_ followed by 16 letters and digits.',
): AppError {
  return new AppError('notFound', `Job ${id.slice(0, 80)} does not exist.`, {
    hint: `list_jobs shows the jobs you can see. ${hint}`,
  });
}
