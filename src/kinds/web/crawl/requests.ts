// How an address of a crawl is asked for: with which headers and cookies, past walls, and with «not if unchanged since».
import { joinedCookies } from '../fetch/cookies.ts';
import type { Fetch, Fetched } from '../fetch/fetcher.ts';
import type { Robots } from '../fetch/robots.ts';
import type { WebSettings } from '../settings.ts';
import type { ByteShare } from './bytes.ts';
import type { CrawlOptions } from './options.ts';
import type { OwnHeaders } from './own-headers.ts';
import { walledFlag, type UrlRow, type Waiting } from './rows.ts';
import { cleanUrl, urlKey } from './url.ts';
import { Walls } from './walls.ts';

export interface RequestNeeds {
  options: CrawlOptions;
  settings: WebSettings;
  fetch: Fetch;
  robots: Robots;
  signal: AbortSignal;
  ownHeaders: OwnHeaders;
  /** Before one more request of the same visit. */
  pause(host: string): Promise<void>;
}

export class Requests {
  private readonly needs: RequestNeeds;
  private readonly walls = new Walls();

  constructor(needs: RequestNeeds) {
    this.needs = needs;
  }

  /** `earlier`: as the earlier crawl knew it. */
  get(row: Waiting, earlier: UrlRow | undefined, share: ByteShare): Promise<Fetched> {
    const isSame = (url: URL) => this.keyOf(url) === row.key;
    return this.walls.pass({
      url: new URL(row.url),
      isWalled: (row.flags & walledFlag) !== 0,
      isDetour: row.hops > 0,
      isSame,
      mayAsk: (url) => this.mayAsk(url),
      pause: ({ host }) => this.needs.pause(host),
      ask: (url, cookie) => {
        const headers = this.headers(url, cookie, isSame(url) ? earlier : undefined);
        const { fetch, signal, settings, options } = this.needs;
        const request = { url: url.href, headers, timeoutMs: options.pageTimeoutMs, signal };
        return share.spend(settings.bodyBytesMax, (bytesMax) => fetch({ ...request, bytesMax }));
      },
    });
  }

  keyOf(url: URL): string {
    return urlKey(cleanUrl(url, this.needs.options.query));
  }

  private headers(
    url: URL,
    cookie: string | undefined,
    earlier: UrlRow | undefined,
  ): Record<string, string> {
    const own = this.needs.ownHeaders.for(url);
    return {
      'user-agent': this.needs.settings.userAgent,
      accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5',
      'accept-language': 'en;q=0.9, *;q=0.5',
      ...own,
      ...(cookie === undefined ? {} : { cookie: joinedCookies(cookie, own.cookie ?? '') }),
      ...(earlier?.etag ? { 'if-none-match': earlier.etag } : {}),
      ...(earlier?.modified ? { 'if-modified-since': earlier.modified } : {}),
    };
  }

  private async mayAsk(url: URL): Promise<boolean> {
    const { robots, options, signal } = this.needs;
    if (options.robots === 'ignore') return true;
    const rules = await robots.rules(url.origin, signal).catch(() => undefined);
    return rules?.allows(url.href) ?? false;
  }
}
