// Change tracking: compares a crawl or page with the last one of the same URL and tag. The earlier job is found by a job tag.
import { createHash } from 'node:crypto';
import type { Asked } from './route.ts';
import { given, type Fields } from './translate.ts';
import { getJob, listJobs } from '../../contracts/jobs.ts';

interface Tracking {
  tag?: string;
}

/** The crawl_site fields that enable the comparison. */
export async function trackingOf(
  { call }: Asked,
  starts: readonly string[],
  tracking: Tracking | undefined,
): Promise<Fields> {
  if (!tracking) return {};
  const tag = trackTag(starts, tracking);
  const { jobs } = await call.operations.call(
    listJobs,
    { kind: ['web'], tag: [tag], status: ['completed'], limit: 1 },
    call.context,
  );
  return given({ tags: [tag], compareWith: jobs[0]?.id });
}

function trackTag(starts: readonly string[], { tag = '' }: Tracking): string {
  const what = JSON.stringify([tag, ...starts.toSorted()]);
  return `track-${createHash('sha256').update(what).digest('hex').slice(0, 24)}`;
}

/** The end of the compared crawl, or undefined if the job does not track changes. */
export async function trackedSince(
  { call }: Asked,
  job: { tags?: unknown; input?: Fields },
): Promise<string | null | undefined> {
  const tags = (job.tags ?? []) as string[];
  if (!tags.some((tag) => tag.startsWith('track-'))) return undefined;
  const id = job.input?.compareWith;
  if (typeof id !== 'string') return null;
  const before = await call.operations.call(getJob, { id }, call.context);
  return before.timings.finishedAt ?? null;
}

export function changeOf(page: Fields, since: string | null): Fields {
  // Hidden: no link leads there any more. The URL is known from the earlier crawl.
  const hidden = page.change === 'removed' || page.via === 'earlier';
  return {
    previousScrapeAt: page.change === 'new' ? null : since,
    changeStatus: page.change ?? 'new',
    visibility: hidden ? 'hidden' : 'visible',
    ...(page.diff === undefined ? {} : { diff: { text: page.diff } }),
  };
}
