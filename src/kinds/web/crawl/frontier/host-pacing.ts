// Decides the request rate per host from the crawl options, the settings and the Crawl-delay in robots.txt.
import { isOwnHost, type Pace } from '../../fetch/pacer.ts';
import type { WebSettings } from '../../settings.ts';
import type { CrawlOptions } from '../options.ts';

export class HostPacing {
  private readonly options: CrawlOptions;
  private readonly settings: WebSettings;
  private readonly warn: (text: string) => void;
  private readonly delays = new Map<string, number>();

  constructor(options: CrawlOptions, settings: WebSettings, warn: (text: string) => void) {
    this.options = options;
    this.settings = settings;
    this.warn = warn;
  }

  of(host: string): Pace {
    const { options, settings } = this;
    const own = isOwnHost(host);
    const total = options.concurrency ?? settings.concurrency;
    const usual = options.delayMs ?? (own ? 0 : settings.delayMs);
    const delayMs = Math.max(usual, this.delays.get(host) ?? 0);
    const concurrency =
      options.hostConcurrency ?? (own ? total : Math.min(total, settings.hostConcurrency));
    return { delayMs, concurrency: delayMs > 0 && options.delayMs !== undefined ? 1 : concurrency };
  }

  /** Applies a Crawl-delay up to the configured maximum. Returns the delay if it is new, else 0. */
  setDelay(host: string, requestedMs: number): number {
    const { maxCrawlDelayMs } = this.settings;
    const delay = Math.min(requestedMs, maxCrawlDelayMs);
    if (this.delays.get(host) === delay) return 0;
    this.delays.set(host, delay);
    if (requestedMs > maxCrawlDelayMs) {
      this.warn(
        `${host} asks for ${requestedMs} ms between requests. The crawl waits ${maxCrawlDelayMs} ms (maxCrawlDelayMs).`,
      );
    }
    return delay;
  }
}
