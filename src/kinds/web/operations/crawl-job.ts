// The job of a crawl, as its operations are told about it.
import { AppError } from '../../../errors.ts';
import type { Job } from '../../../jobs/job.ts';
import type { CrawlRow } from '../crawl/rows.ts';
import type { Services } from '../services.ts';

/** Undefined: it has not begun. */
export async function crawlOf(job: Job, { store }: Services): Promise<CrawlRow | undefined> {
  if (job.kind === 'web' && job.action === 'crawl') return store.find(job.id);
  throw new AppError('wrongState', `${job.id} is no crawl.`, { hint: 'get_job shows its result.' });
}
