// The dependencies of actions and operations, created once in index.ts.
import type { Jobs } from '../../jobs/jobs.ts';
import type { JobWaiter } from '../../jobs/wait.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Egress } from '../../runtime/egress/index.ts';
import type { Log } from '../../runtime/log.ts';
import type { Browser } from './browser/browser.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Fetch } from './fetch/fetcher.ts';
import type { Pacer } from './fetch/pacer.ts';
import type { Reader } from './read/reader.ts';
import type { Robots } from './fetch/robots.ts';
import type { Searcher } from './search/search.ts';
import type { PageStore } from './store/pages.ts';
import type { ReadStore } from './store/reads.ts';
import type { WebSettings } from './settings.ts';
import type { WebStore } from './store/crawls.ts';
import type { Usage } from './billing/credits.ts';
import type { StepStore } from './store/steps.ts';
import type { Contract, InputOf, OutputOf } from '../../operation.ts';

export interface WebDeps {
  jobs: Jobs;
  waiting: JobWaiter;
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
  /** The search engines for an owner, including the owner's crawled pages. */
  searcher(owner: string): Searcher;
  secret(name: string): string | undefined;
  /** Calls an operation as the server itself, on the node that has the job's files. */
  call<C extends Contract>(contract: C, input: InputOf<C>): Promise<OutputOf<C>>;
  /** Crawls running on this server, for pause and resume. */
  running: Map<string, Crawl>;
  /** True during shutdown: running jobs stay as they are, and another server continues them. */
  ending: { now: boolean };
}
