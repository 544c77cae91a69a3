// The crawl as a job: runs it and turns the stop cause into the job's outcome.
import type { Outcome, Run } from '../../../jobs/kind.ts';
import { Crawl } from '../crawl/crawl.ts';
import type { StopCause } from '../crawl/needs.ts';
import type { CrawlOptions } from '../crawl/options.ts';
import { loadSitemaps } from '../crawl/sitemaps.ts';
import type { Reader } from '../fetch/reader.ts';
import { hostOf } from '../private.ts';
import type { Services } from '../services.ts';
import { creditTable } from '../usage/credits.ts';
import { summary } from '../crawl/summary.ts';
import { PageMessages } from '../webhooks.ts';

export async function runCrawl(
  run: Run,
  options: CrawlOptions,
  services: Services,
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
      render: (url, wish) =>
        browser.render(url, { ...wish, jobId: job.id, timeoutMs: options.pageTimeoutMs }),
      extract: (html, url) => extraction(html, url, options, reader),
      credits: { page: creditTable.crawlPage, rendered: creditTable.renderedPage },
    },
    sitemaps: (one) => loadSitemaps(one, { fetch, robots, settings }),
    hold: async (credits, anew) => {
      if (anew) await services.usage.release(job.id);
      return services.usage.holdSome(job, credits);
    },
    told: (pages) => messages.steps(pages),
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
  const wish = {
    schema: options.schema,
    ...(options.selectors ? { selectors: options.selectors } : {}),
  };
  const made = await reader.extract(html, { url, contentType: 'text/html' }, wish);
  const { data, fields, missing, valid, problems } = made;
  return { data, fields, missing, valid, ...(valid ? {} : { problems }) };
}

async function outcomeOf(
  crawl: Crawl,
  cause: StopCause,
  { store }: Services,
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
  // Costs of attempts are added up, and the crawl has its credits of all of them.
  const more = { result, cost: row.credits - costBefore };
  if (cause === 'cancelled') return { type: 'cancelled', ...more };
  if (cause === 'timeout') return { type: 'timed_out', ...more };
  if (writer.pages > 0) return { type: 'completed', ...more };
  const [first] = await store.list(row.crawl, { after: 0, limit: 1 });
  // Nothing was read although nothing stopped it: that is a failure, and the start says why.
  if (first && cause === 'exhausted') {
    const why = first.detail ?? first.reason ?? first.fate;
    const error = {
      code: first.reason === 'egressRefused' ? 'egressRefused' : 'nothingFetched',
      message: `No page could be read. ${first.url}: ${first.fate} (${why}).`,
      hint: 'read_pages shows all addresses (fates errored, disallowed, skipped); retry_job tries the failed ones again.',
      data: {
        fate: first.fate,
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
