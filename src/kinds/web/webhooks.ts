// Web job webhooks, delivered by the core's durable webhooks. Page messages are part of the transaction that stores the
// pages; start and end follow the job's events. The body format is Errand's own or that of another system.
import type { WebhookFacts, WebhookFormat, WebhookPage } from '../../contracts/webhooks.ts';
import { AppError } from '../../errors.ts';
import { signatureHeader } from '../../runtime/body-signature.ts';
import { finalEvents } from '../../jobs/attempt-end.ts';
import type { Job } from '../../jobs/job.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import type { Webhook } from '../../webhooks/rows.ts';
import type { Step } from '../../store/store.ts';
import type { WebhookOptions } from './crawl/options.ts';
import type { PageReport } from './crawl/visit/result.ts';
import { summary } from './crawl/summary.ts';
import { pageOutcomes } from './store/rows.ts';
import type { WebDeps } from './deps.ts';

type Body = Record<string, unknown>;

const formatName = (format: WebhookOptions['format']): string => `web.${format}`;

/** Statements that subscribe the caller's URL in the submit transaction. */
export function subscription(webhooks: Webhooks, job: Job, options: WebhookOptions): Step[] {
  const events = options.events.flatMap((event) => ownEvents[event]);
  const { url, headers, secret } = options;
  const format = formatName(options.format);
  if (!webhooks.findFormat(format))
    throw new AppError('invalidInput', `webhook.format ${options.format} does not exist.`, {
      hint: 'Omit it, or use the name of a dialect that describes crawls.',
    });
  const { owner, id: jobId } = job;
  return webhooks.plan({ owner, url, events, jobId, format, headers, secret }).steps;
}

/** The job events of each webhook event. */
const ownEvents: Record<WebhookOptions['events'][number], readonly string[]> = {
  start: ['started'],
  page: ['page'],
  end: [...finalEvents],
  completed: ['completed'],
  failed: [...finalEvents].filter((event) => event !== 'completed'),
};

/** The options stored with the job, without the secret and headers. */
export function withoutSecrets({
  secret: _s,
  headers: _h,
  ...options
}: WebhookOptions): WebhookOptions {
  return options;
}

/** Builds messages about pages for the transaction that stores them. */
export class PageMessages {
  private readonly hooks: readonly Webhook[];
  private readonly job: Job;
  private readonly services: WebDeps;

  static async of(job: Job, services: WebDeps): Promise<PageMessages> {
    const hooks = await services.webhooks.listForJob(job.id);
    return new PageMessages(
      hooks.filter(({ events }) => events.includes('page')),
      job,
      services,
    );
  }

  constructor(hooks: readonly Webhook[], job: Job, services: WebDeps) {
    this.hooks = hooks;
    this.job = job;
    this.services = services;
  }

  steps(all: readonly PageReport[]): Step[] {
    const reported = all.filter(
      ({ change }) => pageOutcomes.has(change.outcome) || change.outcome === 'errored',
    );
    if (reported.length === 0) return [];
    return this.hooks.flatMap((hook) => {
      const format = this.services.webhooks.findFormat(hook.format);
      return format?.page
        ? reported.map((one) => this.message(hook, one, format.page!(this.job, toPage(one))))
        : [this.message(hook, reported[0]!, this.pages(reported))];
    });
  }

  private message(hook: Webhook, first: PageReport, body: unknown): Step {
    const { webhooks, clock } = this.services;
    // A retried page is reported again. The time makes the message names unique.
    const name = `p${first.result.row.seq}-${clock.now()}`;
    const jobId = this.job.id;
    return webhooks.message({ webhookId: hook.id, jobId, event: 'page', name, body });
  }

  private pages(reported: readonly PageReport[]): Body {
    const pages = reported.map(({ result, change }) => {
      const { outcome, status, title, reason } = change;
      return { url: result.row.url, outcome, status, title, reason };
    });
    return { event: 'page', jobId: this.job.id, at: isoOf(this.services.clock.now()), pages };
  }
}

/** Errand's own format. Dialects add those of their systems. */
export const ownFormat: WebhookFormat = {
  name: formatName('errand'),
  body: ourBody,
  headers: ({ event, secret, body }) => ({
    'x-errand-event': eventName(event),
    ...signatureHeader('x-errand-signature', secret, body),
  }),
};

function toPage({ result, change }: PageReport): WebhookPage {
  const { outcome, title, status, type, reason, detail } = change;
  const { seq, url } = result.row;
  const isRead = pageOutcomes.has(outcome);
  return {
    seq,
    url,
    outcome,
    isRead,
    title,
    status,
    type,
    reason,
    detail,
    body: { ...result.body },
  };
}

const eventName = (type: string): string =>
  type === 'started' ? 'start' : finalEvents.has(type) ? 'end' : type;

function ourBody({ job, event }: WebhookFacts): Body {
  const { id, status, result, error } = job;
  const end = finalEvents.has(event.type) ? { result, ...(error ? { error } : {}) } : {};
  return { event: eventName(event.type), jobId: id, at: isoOf(event.at), status, ...end };
}

const maxFactPages = 50;

/** What a webhook says about a crawl: its counts and its first pages, in the order and with the cursor of read_pages. */
export async function webhookFacts(
  job: Job,
  { store, pages }: WebDeps,
): Promise<Record<string, unknown>> {
  const row = await store.find(job.id);
  if (!row) return {};
  const options = { after: 0, limit: maxFactPages, outcomes: [...pageOutcomes] };
  const list = await store.listPages(row.crawl, options);
  const seqs = list.map(({ seq }) => seq);
  const bodies = await pages.bodies(row.crawl, seqs, ['markdown', 'data']);
  const first = list.map(({ seq, nth, url, title, status }) => {
    const { markdown, data } = (bodies.get(seq) ?? {}) as Body;
    return { nth, url, title: title ?? null, status, markdown, data };
  });
  return { crawl: { ...summary(await store.counts(row.crawl)), first } };
}

const isoOf = (at: number): string => new Date(at).toISOString();
