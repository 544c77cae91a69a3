// Finds the crawl of a job for the crawl operations.
import { AppError } from '../../../errors.ts';
import type { Job } from '../../../jobs/job.ts';
import type { CrawlRow } from '../store/rows.ts';
import type { WebDeps } from '../deps.ts';

/** Undefined if the crawl has not started yet. */
export async function crawlOf(job: Job, { store }: WebDeps): Promise<CrawlRow | undefined> {
  if (job.kind === 'web' && job.action === 'crawl') return store.find(job.id);
  throw new AppError('wrongState', `Job ${job.id} is not a crawl.`, {
    hint: 'Call get_job to see its result.',
  });
}
