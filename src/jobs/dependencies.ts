// Which jobs a job runs after, looked at before it is submitted or retried.
import { AppError } from '../errors.ts';
import { isFinal } from './job.ts';
import type { Ledger } from './ledger.ts';
import type { Submission } from './submission.ts';

/** Those of `after` that are not over yet; refuses what can never be met. */
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
      throw new AppError('wrongState', `It cannot run after ${id}, which ended ${job.status}.`, {
        hint: `Retry ${id} first, or leave it out of \`after\`.`,
      });
    }
  }
  return open;
}

export async function refuseUnmetDependencies(ledger: Ledger, id: string): Promise<void> {
  const unmet = (await ledger.dependenciesOf(id)).find(({ status }) => status !== 'completed');
  if (!unmet) return;
  throw new AppError('wrongState', `It runs after ${unmet.afterId}, which is ${unmet.status}.`, {
    hint: `Retry it once ${unmet.afterId} has completed.`,
  });
}

export function unknownJob(id: string): AppError {
  return new AppError('notFound', `There is no job ${id.slice(0, 80)}.`, {
    hint: 'list_jobs shows the jobs you can see; ids look like job_ and 16 letters and digits.',
  });
}
