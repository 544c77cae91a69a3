// Webhook bodies of crawls and batches in Firecrawl's format: start, one message per page, end.
import type {
  WebhookFacts,
  WebhookFormat,
  WebhookJob,
  WebhookPage,
} from '../../contracts/webhooks.ts';
import { signatureHeader } from '../../runtime/body-signature.ts';
import type { Fields } from './translate.ts';

const maxPageChars = 500_000;

export const crawlWebhook: WebhookFormat = {
  name: 'web.firecrawl',
  body: bodyOf,
  page: pageOf,
  headers: ({ secret, body }) => signatureHeader('x-firecrawl-signature', secret, body),
};

function bodyOf({ job, event }: WebhookFacts): Fields {
  const ends = event.type === 'completed' ? 'completed' : 'failed';
  const type = event.type === 'started' ? 'started' : ends;
  const error =
    type === 'failed'
      ? { error: job.error?.message ?? `The job ended with status ${job.status}.` }
      : {};
  return { success: type !== 'failed', ...headOf(job, type), data: [], ...error };
}

function pageOf(job: WebhookJob, page: WebhookPage): Fields {
  const { url, seq, title, status, type, reason, detail, isRead } = page;
  const { markdown, html, links, images, metadata, data } = page.body;
  const error = isRead ? {} : { error: detail ?? reason ?? page.outcome };
  const document = {
    ...(markdown === undefined ? {} : { markdown: (markdown as string).slice(0, maxPageChars) }),
    ...(html === undefined ? {} : { html: (html as string).slice(0, maxPageChars) }),
    ...(links === undefined ? {} : { links: addresses(links) }),
    ...(images === undefined ? {} : { images: addresses(images) }),
    ...(data === undefined ? {} : { json: (data as { data?: unknown }).data }),
    metadata: {
      ...(metadata as object | undefined),
      title,
      sourceURL: url,
      url,
      statusCode: status,
      contentType: type,
      scrapeId: `${job.id}-${seq}`,
      ...error,
    },
  };
  return { success: isRead, ...headOf(job, 'page'), data: [document], ...error };
}

const addresses = (all: unknown) => (all as { url: string }[]).map(({ url }) => url);

function headOf({ id, input }: WebhookJob, type: string): Fields {
  const { urls, maxDepth, webhook } = input as {
    urls?: unknown;
    maxDepth?: number;
    webhook?: { metadata?: Fields };
  };
  const what = Array.isArray(urls) && maxDepth === 0 ? 'batch_scrape' : 'crawl';
  return { type: `${what}.${type}`, id, metadata: webhook?.metadata ?? {} };
}
