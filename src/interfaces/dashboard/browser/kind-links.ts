// The view of a kind that shows more of a job than the job's own page.
import { hrefOf } from './router.ts';
import { offers } from './session.ts';
import type { Job } from './types.ts';

const views: Readonly<Record<string, (job: Job) => string>> = {
  endpoint: ({ queue }) => `/endpoints/${encodeURIComponent(queue)}`,
  web: ({ id }) => `/crawls/${id}`,
  escrow: ({ id }) => `/escrow/${id}`,
};

export function kindHref(job: Job): string | undefined {
  if (!Object.hasOwn(views, job.kind) || !offers(job.kind)) return undefined;
  return hrefOf(views[job.kind]!(job));
}
