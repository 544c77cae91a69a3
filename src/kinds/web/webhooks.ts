// What a web job tells a URL of the caller's, over the core's durable webhooks: pages with the very commit that stores
// them, begin and end from the job's own events; in our shape, or in that of the system a client expects.
import { createHmac } from 'node:crypto';
import { finalEvents } from '../../jobs/ending.ts';
import type { Job } from '../../jobs/job.ts';
import type { Webhooks } from '../../jobs/webhooks.ts';
import type { Webhook } from '../../jobs/webhook.ts';
import type { WebhookMessage } from '../../jobs/webhook-delivery.ts';
import type { EventRow, Step } from '../../store/store.ts';
import type { WebhookWish } from './crawl/options.ts';
import type { Result } from './crawl/result.ts';
import { summary } from './crawl/summary.ts';
import { pageFates, type UrlChange } from './crawl/rows.ts';
import type { Services } from './services.ts';

/** A result with the fate it was given. */
export interface Told {
  result: Result;
  change: Omit<UrlChange, 'seq'>;
}

type Body = Record<string, unknown>;

const dataBytesMax = 60_000;
const pageCharsMax = 500_000;

/** Statements that subscribe the caller's URL together with the submit. */
export function subscription(webhooks: Webhooks, job: Job, wish: WebhookWish): Step[] {
  const events = wish.events.flatMap((event) => ownEvents[event]);
  const { url, headers, secret } = wish;
  const format = formatName(wish.format);
  const { owner, id: jobId } = job;
  return webhooks.plan({ owner, url, events, jobId, format, headers, secret }).steps;
}

/** What of the job's own events each one is. */
const ownEvents: Record<WebhookWish['events'][number], readonly string[]> = {
  start: ['started'],
  page: ['page'],
  end: [...finalEvents],
  completed: ['completed'],
  failed: [...finalEvents].filter((event) => event !== 'completed'),
};

/** What stays in the job: never the secret, nor headers that may hold one. */
export function withoutSecrets({ secret: _s, headers: _h, ...wish }: WebhookWish): WebhookWish {
  return wish;
}

const formatName = (format: WebhookWish['format']): string => `web.${format}`;

/** Messages about pages, for the transaction that writes them. */
export class PageMessages {
  private readonly hooks: readonly Webhook[];
  private readonly job: Job;
  private readonly services: Services;

  static async of(job: Job, services: Services): Promise<PageMessages> {
    const hooks = await services.webhooks.ofJob(job.id);
    return new PageMessages(
      hooks.filter(({ events }) => events.includes('page')),
      job,
      services,
    );
  }

  constructor(hooks: readonly Webhook[], job: Job, services: Services) {
    this.hooks = hooks;
    this.job = job;
    this.services = services;
  }

  steps(all: readonly Told[]): Step[] {
    const told = all.filter(
      ({ change }) => pageFates.has(change.fate) || change.fate === 'errored',
    );
    if (told.length === 0) return [];
    return this.hooks.flatMap((hook) =>
      hook.format === formatName('firecrawl')
        ? told.map((one) => this.message(hook, one, firecrawlPage(this.job, one)))
        : [this.message(hook, told[0]!, this.pages(told))],
    );
  }

  private message(hook: Webhook, first: Told, body: Body): Step {
    const { webhooks, clock } = this.services;
    // A page that is tried again is told again: the moment tells the messages apart.
    const name = `p${first.result.row.seq}-${clock.now()}`;
    const jobId = this.job.id;
    return webhooks.message({ webhookId: hook.id, jobId, event: 'page', name, body });
  }

  private pages(told: readonly Told[]): Body {
    const pages = told.map(({ result, change }) => {
      const { fate, status, title, reason } = change;
      return { url: result.row.url, fate, status, title, reason };
    });
    return { event: 'page', jobId: this.job.id, at: isoOf(this.services.clock.now()), pages };
  }
}

export function addWebhookFormats(services: Services): void {
  const { webhooks } = services;
  webhooks.addFormat(formatName('errand'), ourBody, (message) => ({
    'x-errand-event': eventName(message.event),
    ...signature('x-errand-signature', message),
  }));
  webhooks.addFormat(formatName('firecrawl'), firecrawlBody, (message) =>
    signature('x-firecrawl-signature', message),
  );
  webhooks.addFormat(
    formatName('searchclaw'),
    (job) => searchclawBody(job, services),
    (message) => ({
      'x-searchclaw-event': message.event === 'completed' ? 'job.completed' : 'job.failed',
      'x-searchclaw-job-id': message.jobId,
      ...signature('x-searchclaw-signature', message),
    }),
  );
}

const eventName = (type: string): string =>
  type === 'started' ? 'start' : finalEvents.has(type) ? 'end' : type;

function signature(name: string, { secret, body }: WebhookMessage): Record<string, string> {
  if (secret === undefined) return {};
  return { [name]: `sha256=${createHmac('sha256', secret).update(body).digest('hex')}` };
}

function ourBody(job: Job, event: EventRow): Body {
  const { id, status, result, error } = job;
  const end = finalEvents.has(event.type) ? { result, ...(error ? { error } : {}) } : {};
  return { event: eventName(event.type), jobId: id, at: isoOf(event.at), status, ...end };
}

function firecrawlBody(job: Job, event: EventRow): Body {
  const ends = event.type === 'completed' ? 'completed' : 'failed';
  const type = event.type === 'started' ? 'started' : ends;
  const error = type === 'failed' ? { error: job.error?.message ?? `It was ${job.status}.` } : {};
  return { success: type !== 'failed', ...firecrawlHead(job, type), data: [], ...error };
}

function firecrawlPage(job: Job, { result, change }: Told): Body {
  const { title, status, type, reason, detail } = change;
  const { markdown, html, links, images, metadata, data } = result.body ?? {};
  const good = pageFates.has(change.fate);
  const error = good ? {} : { error: detail ?? reason ?? change.fate };
  const document = {
    ...(markdown === undefined ? {} : { markdown: markdown.slice(0, pageCharsMax) }),
    ...(html === undefined ? {} : { html: html.slice(0, pageCharsMax) }),
    ...(links === undefined ? {} : { links: addresses(links) }),
    ...(images === undefined ? {} : { images: addresses(images) }),
    ...(data === undefined ? {} : { json: (data as { data?: unknown }).data }),
    metadata: {
      ...(metadata as object | undefined),
      title,
      sourceURL: result.row.url,
      url: result.row.url,
      statusCode: status,
      contentType: type,
      ...error,
    },
  };
  return { success: good, ...firecrawlHead(job, 'page'), data: [document], ...error };
}

const addresses = (all: unknown) => (all as { url: string }[]).map(({ url }) => url);

function firecrawlHead({ id, input }: Job, type: string): Body {
  const { urls, maxDepth, webhook } = input as {
    urls?: unknown;
    maxDepth?: number;
    webhook?: WebhookWish;
  };
  const what = Array.isArray(urls) && maxDepth === 0 ? 'batch_scrape' : 'crawl';
  return { type: `${what}.${type}`, id, metadata: webhook?.metadata ?? {} };
}

async function searchclawBody(job: Job, { store, pages }: Services): Promise<Body> {
  const row = await store.find(job.id);
  const result = (job.result ?? {}) as Body;
  const failed = job.status !== 'completed';
  const base = {
    job_id: job.id,
    error: job.error?.message ?? null,
    stop_reason: result.stopReason ?? null,
    poll_url: `/v1/jobs/${job.id}`,
  };
  const meta = (items: number) => ({
    total_items: items,
    pages_crawled: items,
    credits_used: result.creditsUsed ?? 0,
    duration_ms: (job.finishedAt ?? 0) - (job.startedAt ?? job.finishedAt ?? 0),
  });
  if (!row) {
    const data = (result.items as unknown[] | undefined) ?? [result.data ?? result];
    const status = failed ? 'failed' : 'completed';
    return { ...base, status, data: failed ? null : data, meta: meta(data.length) };
  }
  const counts = summary(await store.counts(row.crawl)) as {
    pages: number;
    fates: Record<string, number>;
  };
  const { stopReason } = result;
  const whole = stopReason === 'limit' || (stopReason === 'exhausted' && !counts.fates.errored);
  const partial = counts.pages > 0 && (failed || !whole);
  // In the order and with the cursor of read_pages, by which the receiver goes on.
  const list = await store.listPages(row.crawl, { after: 0, limit: 50, fates: [...pageFates] });
  const bodies = await pages.bodies(
    row.crawl,
    list.map(({ seq }) => seq),
    ['markdown', 'data'],
  );
  const data: Body[] = [];
  let bytes = 0;
  for (const { seq, url, title, status } of list) {
    const { markdown, data: found } = (bodies.get(seq) ?? {}) as Body;
    const { data: filled, ...extraction } = (found ?? {}) as Body;
    const extracted = found === undefined ? {} : { data: filled, extraction };
    const item = { url, title: title ?? null, status_code: status, markdown, ...extracted };
    bytes += Buffer.byteLength(JSON.stringify(item));
    if (bytes > dataBytesMax) break;
    data.push(item);
  }
  return {
    ...base,
    status: partial ? 'partial' : failed ? 'failed' : 'completed',
    progress: {
      pages_crawled: counts.pages,
      total_pages: counts.pages,
      items_extracted: counts.pages,
    },
    counts: counts.fates,
    data,
    next_cursor: data.length < counts.pages ? String(list[data.length - 1]?.nth ?? 0) : null,
    meta: meta(counts.pages),
  };
}

const isoOf = (at: number): string => new Date(at).toISOString();
