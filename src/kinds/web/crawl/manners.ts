// How fast each host of a crawl may be asked: the caller's wish, the settings, and the Crawl-delay of its robots.txt.
import { isOwnHost, type Manners } from '../fetch/pacer.ts';
import type { WebSettings } from '../settings.ts';
import type { CrawlOptions } from './options.ts';

export class HostManners {
  private readonly options: CrawlOptions;
  private readonly settings: WebSettings;
  private readonly warn: (text: string) => void;
  private readonly delays = new Map<string, number>();

  constructor(options: CrawlOptions, settings: WebSettings, warn: (text: string) => void) {
    this.options = options;
    this.settings = settings;
    this.warn = warn;
  }

  of(host: string): Manners {
    const { options, settings } = this;
    const own = isOwnHost(host);
    const total = options.concurrency ?? settings.concurrency;
    const usual = options.delayMs ?? (own ? 0 : settings.delayMs);
    const delayMs = Math.max(usual, this.delays.get(host) ?? 0);
    const concurrency =
      options.hostConcurrency ?? (own ? total : Math.min(total, settings.hostConcurrency));
    return { delayMs, concurrency: delayMs > 0 && options.delayMs !== undefined ? 1 : concurrency };
  }

  /** The site's own wish, up to a limit that is said. The pause that is still owed when it is new, else 0. */
  noteDelay(host: string, wished: number): number {
    const { crawlDelayMsMax } = this.settings;
    const delay = Math.min(wished, crawlDelayMsMax);
    if (this.delays.get(host) === delay) return 0;
    this.delays.set(host, delay);
    if (wished > crawlDelayMsMax) {
      this.warn(
        `${host} asks for ${wished} ms between requests; ${crawlDelayMsMax} ms are kept (crawlDelayMsMax).`,
      );
    }
    return delay;
  }
}
