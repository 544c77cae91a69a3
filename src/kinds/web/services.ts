// What actions and operations share: made once in index.ts.
import type { Jobs } from '../../jobs/jobs.ts';
import type { Waiting } from '../../jobs/wait.ts';
import type { Webhooks } from '../../jobs/webhooks.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Egress } from '../../runtime/egress/index.ts';
import type { Log } from '../../runtime/log.ts';
import type { Browser } from './browser/browser.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Fetch } from './fetch/fetcher.ts';
import type { Pacer } from './fetch/pacer.ts';
import type { Reader } from './fetch/reader.ts';
import type { Robots } from './fetch/robots.ts';
import type { Searcher } from './search/search.ts';
import type { PageStore } from './pages/store.ts';
import type { ReadStore } from './reads/store.ts';
import type { WebSettings } from './settings.ts';
import type { WebStore } from './store.ts';
import type { Usage } from './usage/credits.ts';
import type { StepStore } from './steps/store.ts';

export interface Services {
  jobs: Jobs;
  waiting: Waiting;
  webhooks: Webhooks;
  clock: Clock;
  log: Log;
  settings: WebSettings;
  folder: string;
  store: WebStore;
  pages: PageStore;
  reads: ReadStore;
  steps: StepStore;
  usage: Usage;
  fetch: Fetch;
  egress: Egress;
  reader: Reader;
  robots: Robots;
  pacer: Pacer;
  browser: Browser;
  /** Engines for an owner: their own crawled pages are one of them. */
  searcher(owner: string): Searcher;
  secret(name: string): string | undefined;
  /** An operation, called as the server itself: where the files of a job are. */
  call<O>(name: string, input: unknown): Promise<O>;
  /** Crawls that run here, for pause and resume. */
  running: Map<string, Crawl>;
  /** The server ends: what runs is left as it is, for whoever adopts it. */
  ending: { now: boolean };
}
