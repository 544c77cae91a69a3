// The crawl as a job: runs it, tells its webhook, and turns the stop cause into the job's outcome.
import { createHmac } from 'node:crypto';
import { AppError } from '../../../errors.ts';
import type { Outcome, Run } from '../../../jobs/kind.ts';
import { Crawl } from '../crawl/crawl.ts';
import type { StopCause } from '../crawl/needs.ts';
import type { CrawlOptions } from '../crawl/options.ts';
import type { Result } from '../crawl/result.ts';
import { loadSitemaps } from '../crawl/sitemaps.ts';
import type { Reader } from '../fetch/reader.ts';
import type { Services } from '../services.ts';
import { pageFates } from '../crawl/rows.ts';
import { creditTable } from '../usage/credits.ts';

const webhookTries = [0, 1000, 5000];
const webhookTimeoutMs = 10_000;

export async function runCrawl(
  run: Run,
  options: CrawlOptions,
  services: Services,
): Promise<Outcome> {
  const { job } = run;
  const { store, pages, pacer, clock, log, settings, fetch, reader, robots, browser } = services;
  const hook = new Webhook(options, job.id, services);
  const crawl = new Crawl(run, options, {
    store,
    pages,
    pacer,
    clock,
    log,
    settings,
    visit: {
      fetch,
      reader,
      robots,
      render: (url, screenshot) =>
        browser.render(url, { jobId: job.id, screenshot, timeoutMs: options.pageTimeoutMs }),
      extract: (html, url) => extraction(html, url, options, reader),
      credits: { page: creditTable.crawlPage, rendered: creditTable.renderedPage },
    },
    sitemaps: (one) => loadSitemaps(one, { fetch, robots, settings }),
    creditsLeft: (owner) => services.usage.left(owner),
    onWritten: (results) => hook.pages(results),
  });
  services.running.set(job.id, crawl);
  try {
    const cause = await crawl.crawl();
    const outcome = await outcomeOf(crawl, cause, services);
    if (cause !== 'shutdown' && cause !== 'lost') await hook.end(outcome);
    return outcome;
  } finally {
    services.running.delete(job.id);
  }
}

async function extraction(
  html: string,
  url: string,
  options: CrawlOptions,
  reader: Reader,
): Promise<unknown> {
  const wish = {
    schema: options.schema,
    ...(options.selectors ? { selectors: options.selectors } : {}),
  };
  const made = await reader.extract(html, { url, contentType: 'text/html' }, wish);
  const { data, fields, missing, valid, problems } = made;
  return { data, fields, missing, valid, ...(valid ? {} : { problems }) };
}

async function outcomeOf(crawl: Crawl, cause: StopCause, { store }: Services): Promise<Outcome> {
  if (cause === 'shutdown' || cause === 'lost') return { type: 'lost' };
  const { row, pages } = crawl;
  const counts = await store.counts(row.crawl);
  const result = {
    ...summary(counts),
    stopReason: cause,
    bytes: row.bytes,
    creditsUsed: row.credits,
    ...warnings(row.state.warnings),
  };
  const more = { result, cost: row.credits };
  if (cause === 'cancelled') return { type: 'cancelled', result };
  if (cause === 'timeout') return { type: 'timed_out', result };
  if (pages > 0) return { type: 'completed', ...more };
  const [first] = await store.list(row.crawl, { after: 0, limit: 1 });
  // Nothing was read although nothing stopped it: that is a failure, and the start says why.
  if (first && cause === 'exhausted') {
    const why = first.detail ?? first.reason ?? first.fate;
    const error = {
      code: first.reason === 'egressRefused' ? 'egressRefused' : 'nothingFetched',
      message: `No page could be read. ${first.url}: ${first.fate} (${why}).`,
      hint: 'read_pages with fates ["errored","disallowed","skipped"] shows every address; retry_job tries the failed ones again.',
      data: {
        fate: first.fate,
        ...(first.reason ? { reason: first.reason } : {}),
        ...(first.status ? { status: first.status } : {}),
      },
    };
    return { type: 'failed', error, retry: false, ...more };
  }
  return { type: 'completed', ...more };
}

const warnings = (list: string[]) => (list.length > 0 ? { warnings: list } : {});

/** Counts by fate, reasons beside them, changes if they were tracked. */
export function summary(counts: Record<string, number>): Record<string, unknown> {
  const fates: Record<string, number> = {};
  const reasons: Record<string, number> = {};
  const changes: Record<string, number> = {};
  for (const [name, n] of Object.entries(counts)) {
    if (n === 0 || name.startsWith('path:') || name.startsWith('like:')) continue;
    if (name.startsWith('change:')) changes[name.slice('change:'.length)] = n;
    else if (name.includes(':')) reasons[name] = n;
    else fates[name] = n;
  }
  return {
    pages: (fates.fetched ?? 0) + (fates.unchanged ?? 0),
    fates,
    ...(Object.keys(reasons).length > 0 ? { reasons } : {}),
    ...(Object.keys(changes).length > 0 ? { changes } : {}),
  };
}

/** Tells a URL of the caller's about pages and the end. The crawl never waits for it, except at its very end. */
class Webhook {
  private readonly wish: CrawlOptions['webhook'];
  private readonly jobId: string;
  private readonly services: Services;
  private last: Promise<void> = Promise.resolve();

  constructor(options: CrawlOptions, jobId: string, services: Services) {
    this.wish = options.webhook;
    this.jobId = jobId;
    this.services = services;
  }

  pages(results: readonly Result[]): void {
    if (!this.wish?.events.includes('page')) return;
    const pages = results
      .filter(({ change }) => pageFates.has(change.fate) || change.fate === 'errored')
      .map(({ row, change }) => ({
        url: row.url,
        fate: change.fate,
        status: change.status,
        title: change.title,
      }));
    if (pages.length > 0) this.last = this.last.then(() => this.post('page', { pages }));
  }

  async end(outcome: Outcome): Promise<void> {
    await this.last;
    if (!this.wish?.events.includes('end')) return;
    const result = 'result' in outcome ? outcome.result : undefined;
    await this.post('end', { status: outcome.type, result });
  }

  private async post(event: string, data: object): Promise<void> {
    const { fetch, clock, log } = this.services;
    const { url, secret, headers } = this.wish!;
    const body = JSON.stringify({
      event,
      jobId: this.jobId,
      at: new Date(clock.now()).toISOString(),
      ...data,
    });
    const signature: Record<string, string> =
      secret === undefined ? {} : { 'x-errand-signature': `sha256=${hmac(secret, body)}` };
    for (const waitMs of webhookTries) {
      await clock.sleep(waitMs);
      try {
        const { status } = await fetch({
          url,
          method: 'POST',
          body,
          headers: {
            ...headers,
            'content-type': 'application/json',
            'x-errand-event': event,
            ...signature,
          },
          timeoutMs: webhookTimeoutMs,
          bytesMax: 65_536,
        });
        if (status >= 200 && status < 300) return;
      } catch (error) {
        if (error instanceof AppError && error.code === 'egressRefused') break;
      }
    }
    log.warn('a crawl webhook was not accepted', { jobId: this.jobId, event });
  }
}

const hmac = (secret: string, body: string): string =>
  createHmac('sha256', secret).update(body).digest('hex');
