// The web plugin: settings, error codes, tables and wiring.
import { availableParallelism } from 'node:os';
import { definePlugin } from '../../plugin.ts';
import { isAnything, isRecord } from '../../runtime/json.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import { Browser } from './browser/browser.ts';
import { examineBrowser } from './browser/examine.ts';
import { checkWeb } from './store/check.ts';
import { PagePool } from './read/pool.ts';
import { createFetch } from './fetch/fetcher.ts';
import { Pacer } from './fetch/pacer.ts';
import { Robots } from './fetch/robots.ts';
import { createWebKind } from './kind.ts';
import { webIndexes, webMigrations } from './migrations.ts';
import { webOperations } from './operations/index.ts';
import { PageStore } from './store/pages.ts';
import { ReadStore } from './store/reads.ts';
import { Searcher } from './search/search.ts';
import type { WebDeps } from './deps.ts';
import { webSettings } from './settings.ts';
import { WebStore } from './store/crawls.ts';
import { Usage } from './billing/credits.ts';
import { ownFormat } from './webhooks.ts';
import { ReservationStore } from './store/reservations.ts';
import { StepStore } from './store/steps.ts';
import { UsageStore } from './store/usage.ts';

const indexEveryMs = 2000;
const pageReadMs = 5000;

export const webPlugin = definePlugin({
  name: 'web',
  settings: webSettings,
  errors: {
    budgetExhausted: { http: 402, exit: 6 },
    noBrowser: { http: 501, exit: 7 },
    browserFailed: { http: 502, exit: 7, retryable: true },
    pageFailed: { http: 502, exit: 7, retryable: true },
    robotsDisallowed: { http: 403, exit: 3 },
    nothingFetched: { http: 502, exit: 7 },
    nothingFound: { http: 404, exit: 4 },
    interrupted: { http: 409, exit: 5 },
    invalidExtraction: { http: 422, exit: 2 },
  },
  migrations: webMigrations,
  searchIndexes: webIndexes,
  jsonColumns: {
    web_crawls: { state: isRecord },
    web_steps: { step: isAnything, found: isAnything },
    web_pages: {
      links: isAnything,
      metadata: isAnything,
      structured: isAnything,
      images: isAnything,
      data: isAnything,
    },
  },
  check: checkWeb,
  examine: (settings, machine) => [examineBrowser(settings, machine)],
  create: (deps) => {
    const { jobs, waiting, webhooks, store, clock, log, settings, folder, secret, egress } = deps;
    const fetch = createFetch(egress);
    const pool = new PagePool({
      clock,
      threads: Math.max(1, availableParallelism()),
      pageTimeoutMs: pageReadMs,
    });
    const browser = new Browser({ settings, egress, clock, log, folder });
    const pages = new PageStore(store);
    const services: WebDeps = {
      jobs,
      waiting,
      webhooks,
      clock,
      log,
      settings,
      folder,
      secret,
      call: (contract, input) => deps.call(contract, input),
      fetch,
      egress,
      browser,
      pages,
      reads: new ReadStore(store),
      store: new WebStore(store),
      steps: new StepStore(store),
      usage: new Usage(
        { store: new UsageStore(store), reservations: new ReservationStore(store) },
        clock,
        settings.budget,
      ),
      reader: pool,
      robots: new Robots({ fetch, clock, userAgent: settings.userAgent }),
      pacer: new Pacer(clock),
      running: new Map(),
      ending: { now: false },
      searcher: (owner) =>
        new Searcher({
          settings: settings.search,
          egress,
          clock,
          secret,
          pages: { searchPages: (query, window) => searchPages(pages, owner, query, window) },
        }),
    };
    services.webhooks.addFormat(ownFormat);
    const indexer = new Loop({
      name: 'full text',
      everyMs: indexEveryMs,
      clock,
      log,
      // No indexing while a crawl runs, because it would slow the crawl down. A search indexes the rest first.
      run: async (signal) => {
        while (services.running.size === 0 && !signal.aborted && (await pages.indexSome()) > 0);
      },
    });
    return {
      kind: createWebKind(services),
      operations: webOperations(services),
      services: [pool, browser, indexer, lifecycle(services)],
    };
  },
});

/** Stops first: crawls store their results before their dependencies stop. */
function lifecycle({ ending, running }: WebDeps): Service {
  return {
    name: 'web jobs',
    start: async () => {
      ending.now = false;
    },
    stop: async () => {
      ending.now = true;
      await Promise.all([...running.values()].map((crawl) => crawl.suspend()));
    },
  };
}

async function searchPages(
  pages: PageStore,
  owner: string,
  query: string,
  window: { limit: number; offset: number },
) {
  const hits = await pages.search(owner, query, window);
  return hits.map(({ url, title, snippet, at }) => ({
    url,
    snippet,
    fetchedAt: at,
    ...(title ? { title } : {}),
  }));
}
