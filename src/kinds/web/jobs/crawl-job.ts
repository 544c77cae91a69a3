// Runs a crawl job and converts its stop reason into the job outcome.
import type { Outcome, Run } from '../../../jobs/kind.ts';
import { Crawl } from '../crawl/crawl.ts';
import type { StopCause } from '../crawl/deps.ts';
import type { CrawlOptions } from '../crawl/options.ts';
import { loadSitemaps } from '../crawl/frontier/sitemaps.ts';
import type { Reader } from '../read/reader.ts';
import { hostOf } from '../private-addresses.ts';
import type { WebDeps } from '../deps.ts';
import { creditTable } from '../billing/credits.ts';
import { summary } from '../crawl/summary.ts';
import { PageMessages } from '../webhooks.ts';

export async function runCrawl(
  run: Run,
  options: CrawlOptions,
  services: WebDeps,
): Promise<Outcome> {
  const { job } = run;
  const { store, pages, pacer, clock, log, settings, fetch, reader, robots, browser } = services;
  const messages = await PageMessages.of(job, services);
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
      render: (url, renderOptions) =>
        browser.render(url, { ...renderOptions, jobId: job.id, timeoutMs: options.pageTimeoutMs }),
      extract: (html, url) => extraction(html, url, options, reader),
      credits: { page: creditTable.crawlPage, rendered: creditTable.renderedPage },
    },
    sitemaps: (one) => loadSitemaps(one, { fetch, robots, settings }),
    hold: async (credits, renew) => {
      if (renew) await services.usage.release(job.id);
      return services.usage.reserveUpTo(job, credits);
    },
    pageMessages: (pages) => messages.steps(pages),
  });
  services.running.set(job.id, crawl);
  try {
    const cause = await crawl.crawl();
    return await outcomeOf(crawl, cause, services, job.cost ?? 0);
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
  const request = {
    schema: options.schema,
    ...(options.selectors ? { selectors: options.selectors } : {}),
  };
  const extraction = await reader.extract(html, { url, contentType: 'text/html' }, request);
  const { data, fields, missing, valid, problems } = extraction;
  return { data, fields, missing, valid, ...(valid ? {} : { problems }) };
}

async function outcomeOf(
  crawl: Crawl,
  cause: StopCause,
  { store }: WebDeps,
  costBefore: number,
): Promise<Outcome> {
  if (cause === 'shutdown' || cause === 'lost') return { type: 'lost' };
  const { row, writer } = crawl;
  const counts = await store.counts(row.crawl);
  const result = {
    ...summary(counts),
    stopReason: cause,
    bytes: row.bytes,
    creditsUsed: row.credits,
    ...warnings(row.state.warnings),
  };
  // The core adds up the cost of all attempts, but `row.credits` already is that total.
  const more = { result, cost: row.credits - costBefore };
  if (cause === 'cancelled') return { type: 'cancelled', ...more };
  if (cause === 'timeout') return { type: 'timed_out', ...more };
  if (writer.pages > 0) return { type: 'completed', ...more };
  const [first] = await store.list(row.crawl, { after: 0, limit: 1 });
  // A crawl that ended without reading any page has failed. The first row shows why.
  if (first && cause === 'exhausted') {
    const why = first.detail ?? first.reason ?? first.outcome;
    const error = {
      code: first.reason === 'egressRefused' ? 'egressRefused' : 'nothingFetched',
      message: `No page could be read. ${first.url}: ${first.outcome} (${why}).`,
      hint: 'Call read_pages with outcomes errored, disallowed and skipped to see all URLs, or retry_job to repeat the failed ones.',
      data: {
        outcome: first.outcome,
        ...(first.reason ? { reason: first.reason } : {}),
        ...(first.status ? { status: first.status } : {}),
        ...(first.reason === 'egressRefused' ? { allow: hostOf(first.url)[0] } : {}),
      },
    };
    return { type: 'failed', error, retry: false, ...more };
  }
  return { type: 'completed', ...more };
}

const warnings = (list: string[]) => (list.length > 0 ? { warnings: list } : {});
