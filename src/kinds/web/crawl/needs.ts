// What a crawl is given to work with, and the causes for which it stops.
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import type { Log } from '../../../runtime/log.ts';
import type { Pacer } from '../fetch/pacer.ts';
import type { PageStore } from '../pages/store.ts';
import type { WebSettings } from '../settings.ts';
import type { WebStore } from '../store.ts';
import type { Told } from '../webhooks.ts';
import type { Crawl } from './crawl.ts';
import type { VisitNeeds } from './visit.ts';

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

export interface CrawlNeeds {
  store: WebStore;
  pages: PageStore;
  pacer: Pacer;
  clock: Clock;
  log: Log;
  settings: WebSettings;
  visit: Omit<
    VisitNeeds,
    'options' | 'settings' | 'clock' | 'signal' | 'ownHeaders' | 'earlier' | 'crawlDelay' | 'pause'
  >;
  sitemaps: (crawl: Crawl) => Promise<void>;
  /** Keeps as many of these credits of the owner's budget for this crawl as there are; how many. `anew`: instead of those before. */
  hold(credits: number, anew: boolean): Promise<number>;
  /** What somebody is to be told of these pages, for the command that writes them. */
  told(pages: readonly Told[]): Step[];
}
