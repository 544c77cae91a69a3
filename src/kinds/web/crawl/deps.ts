// The dependencies of a crawl and its stop reasons.
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import type { Log } from '../../../runtime/log.ts';
import type { Pacer } from '../fetch/pacer.ts';
import type { PageStore } from '../store/pages.ts';
import type { WebSettings } from '../settings.ts';
import type { WebStore } from '../store/crawls.ts';
import type { PageReport } from './visit/result.ts';
import type { SitemapCrawl } from './frontier/sitemaps.ts';
import type { VisitDeps } from './visit/visit.ts';

export type StopCause =
  | 'exhausted'
  | 'limit'
  | 'time'
  | 'bytes'
  | 'credits'
  | 'budget'
  | 'cancelled'
  | 'timeout'
  | 'shutdown'
  | 'lost';

export interface CrawlDeps {
  store: WebStore;
  pages: PageStore;
  pacer: Pacer;
  clock: Clock;
  log: Log;
  settings: WebSettings;
  visit: Omit<
    VisitDeps,
    'options' | 'settings' | 'clock' | 'signal' | 'ownHeaders' | 'earlier' | 'crawlDelay' | 'pause'
  >;
  sitemaps: (crawl: SitemapCrawl) => Promise<void>;
  /** Reserves up to this many credits of the owner's budget and returns the number. `renew` replaces earlier reservations. */
  hold(credits: number, renew: boolean): Promise<number>;
  /** Webhook messages about these pages, for the transaction that stores them. */
  pageMessages(pages: readonly PageReport[]): Step[];
}
