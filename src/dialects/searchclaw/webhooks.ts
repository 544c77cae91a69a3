// Webhook bodies of ended jobs in SearchClaw's format: the state of the job and the first pages of a crawl.
import type { WebhookFacts, WebhookFormat, WebhookJob } from '../../contracts/webhooks.ts';
import { signatureHeader } from '../../runtime/body-signature.ts';
import { crawlStatusOf, extractionOf } from './jobs.ts';
import type { Fields } from './call.ts';

const maxDataBytes = 60_000;

/** What the web kind adds about a crawl. */
interface CrawlFacts {
  pages: number;
  outcomes: Record<string, number>;
  first: {
    nth: number;
    url: string;
    title: string | null;
    status: number | null;
    markdown?: string;
    data?: Fields;
  }[];
}

export const jobWebhook: WebhookFormat = {
  name: 'web.searchclaw',
  needsFacts: true,
  body: bodyOf,
  headers: ({ event, jobId, secret, body }) => ({
    'x-searchclaw-event': event === 'completed' ? 'job.completed' : 'job.failed',
    'x-searchclaw-job-id': jobId,
    ...signatureHeader('x-searchclaw-signature', secret, body),
  }),
};

function bodyOf({ job, facts }: WebhookFacts): Fields {
  const result = (job.result ?? {}) as Fields;
  const base = {
    job_id: job.id,
    error: job.error?.message ?? null,
    stop_reason: result.stopReason ?? null,
    poll_url: `/v1/jobs/${job.id}`,
  };
  const crawl = facts.crawl as CrawlFacts | undefined;
  if (!crawl) {
    const failed = job.status !== 'completed';
    const data = (result.items as unknown[] | undefined) ?? [result.data ?? result];
    const status = failed ? 'failed' : 'completed';
    return { ...base, status, data: failed ? null : data, meta: metaOf(job, result, data.length) };
  }
  const { pages, outcomes, first } = crawl;
  const stopReason = result.stopReason as string | undefined;
  const data = fitting(first);
  return {
    ...base,
    status: crawlStatusOf(job.status, { pages, outcomes, stopReason }),
    progress: { pages_crawled: pages, total_pages: pages, items_extracted: pages },
    counts: outcomes,
    data,
    next_cursor: data.length < pages ? String(first[data.length - 1]?.nth ?? 0) : null,
    meta: metaOf(job, result, pages),
  };
}

/** The pages that fit into the body. The receiver continues from the cursor. */
function fitting(pages: CrawlFacts['first']): Fields[] {
  const data: Fields[] = [];
  let bytes = 0;
  for (const { url, title, status, markdown, data: found } of pages) {
    const item = { url, title, status_code: status, markdown, ...extractionOf(found) };
    bytes += Buffer.byteLength(JSON.stringify(item));
    if (bytes > maxDataBytes) break;
    data.push(item);
  }
  return data;
}

const metaOf = ({ startedAt, finishedAt }: WebhookJob, result: Fields, items: number) => ({
  total_items: items,
  pages_crawled: items,
  credits_used: result.creditsUsed ?? 0,
  duration_ms: (finishedAt ?? 0) - (startedAt ?? finishedAt ?? 0),
});
