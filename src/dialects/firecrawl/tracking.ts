// Change tracking: a crawl or page that asks for it is compared with the last one of the same address and tag, which is
// found by a tag of the job.
import { createHash } from 'node:crypto';
import type { Asked } from './index.ts';
import { given, type Fields } from './translate.ts';

export interface Tracking {
  tag?: string;
}

/** Input fields of crawl_site that make it comparable, and with what it is compared. */
export async function trackingOf(
  { call }: Asked,
  starts: readonly string[],
  tracking: Tracking | undefined,
): Promise<Fields> {
  if (!tracking) return {};
  const tag = trackTag(starts, tracking);
  const { jobs } = await call.operations.call<{ jobs: { id: string }[] }>(
    'list_jobs',
    { kind: ['web'], tag: [tag], status: ['completed'], limit: 1 },
    call.context,
  );
  return given({ tags: [tag], compareWith: jobs[0]?.id });
}

function trackTag(starts: readonly string[], { tag = '' }: Tracking): string {
  const what = JSON.stringify([tag, ...starts.toSorted()]);
  return `track-${createHash('sha256').update(what).digest('hex').slice(0, 24)}`;
}

/** When the crawl it was compared with ended; undefined: this job does not track. */
export async function trackedSince(
  { call }: Asked,
  job: { tags?: unknown; input?: Fields },
): Promise<string | null | undefined> {
  const tags = (job.tags ?? []) as string[];
  if (!tags.some((tag) => tag.startsWith('track-'))) return undefined;
  const id = job.input?.compareWith;
  if (typeof id !== 'string') return null;
  const before = await call.operations.call<{ timings: { finishedAt?: string } }>(
    'get_job',
    { id },
    call.context,
  );
  return before.timings.finishedAt ?? null;
}

export function changeOf(page: Fields, since: string | null): Fields {
  // Hidden: nothing leads there any more, it was asked for from memory.
  const hidden = page.change === 'removed' || page.via === 'earlier';
  return given({
    previousScrapeAt: page.change === 'new' ? undefined : (since ?? undefined),
    changeStatus: page.change ?? 'new',
    visibility: hidden ? 'hidden' : 'visible',
    diff: page.diff === undefined ? undefined : { text: page.diff },
  });
}
