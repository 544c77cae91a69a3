// Requests the URLs of a crawl: headers, cookies, cookie redirects and conditional requests.
import { joinCookies } from '../../fetch/cookies.ts';
import type { Fetch, Fetched } from '../../fetch/fetcher.ts';
import type { Robots } from '../../fetch/robots.ts';
import type { WebSettings } from '../../settings.ts';
import type { ByteShare } from '../bytes.ts';
import type { CrawlOptions } from '../options.ts';
import type { OwnHeaders } from './own-headers.ts';
import { cookieFlag, type UrlRow, type Waiting } from '../../store/rows.ts';
import { cleanUrl, urlKey } from '../../url.ts';
import { CookieRedirects } from './cookie-redirects.ts';

export interface RequestDeps {
  options: CrawlOptions;
  settings: WebSettings;
  fetch: Fetch;
  robots: Robots;
  signal: AbortSignal;
  ownHeaders: OwnHeaders;
  /** Waits before another request of the same visit. */
  pause(host: string): Promise<void>;
}

export class Requests {
  private readonly deps: RequestDeps;
  private readonly cookieRedirects = new CookieRedirects();

  constructor(deps: RequestDeps) {
    this.deps = deps;
  }

  /** `earlier` is the row of the earlier crawl, for a conditional request. */
  get(row: Waiting, earlier: UrlRow | undefined, share: ByteShare): Promise<Fetched> {
    const isSame = (url: URL) => this.keyOf(url) === row.key;
    return this.cookieRedirects.load({
      url: new URL(row.url),
      sendsCookies: (row.flags & cookieFlag) !== 0,
      isRedirectTarget: row.hops > 0,
      isSame,
      mayAsk: (url) => this.mayAsk(url),
      pause: ({ host }) => this.deps.pause(host),
      ask: (url, cookie) => {
        const headers = this.headers(url, cookie, isSame(url) ? earlier : undefined);
        const { fetch, signal, settings, options } = this.deps;
        const request = { url: url.href, headers, timeoutMs: options.pageTimeoutMs, signal };
        return share.spend(settings.maxBodyBytes, (maxBytes) => fetch({ ...request, maxBytes }));
      },
    });
  }

  keyOf(url: URL): string {
    return urlKey(cleanUrl(url, this.deps.options.query));
  }

  private headers(
    url: URL,
    cookie: string | undefined,
    earlier: UrlRow | undefined,
  ): Record<string, string> {
    const own = this.deps.ownHeaders.for(url);
    return {
      'user-agent': this.deps.settings.userAgent,
      accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5',
      'accept-language': 'en;q=0.9, *;q=0.5',
      ...own,
      ...(cookie === undefined ? {} : { cookie: joinCookies(cookie, own.cookie ?? '') }),
      ...(earlier?.etag ? { 'if-none-match': earlier.etag } : {}),
      ...(earlier?.modified ? { 'if-modified-since': earlier.modified } : {}),
    };
  }

  private async mayAsk(url: URL): Promise<boolean> {
    const { robots, options, signal } = this.deps;
    if (options.robots === 'ignore') return true;
    const rules = await robots.rules(url.origin, signal).catch(() => undefined);
    return rules?.allows(url.href) ?? false;
  }
}
