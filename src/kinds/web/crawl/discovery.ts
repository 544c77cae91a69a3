// From links to new rows: cleaned, placed in or out of the crawl. What has a row is remembered (bounded), because most
// links of a site's pages lead to the same places.
import type { CrawlOptions } from './options.ts';
import type { Scope } from './scope.ts';
import { cleanUrl, urlKey } from './url.ts';
import type { Fate, NewUrl } from './rows.ts';

export interface Origin {
  /** Row of the page it was found on; null for starts and sitemaps. */
  parent: number | null;
  depth: number;
  via: 'start' | 'link' | 'sitemap' | 'redirect' | 'canonical' | 'earlier';
  hops?: number;
  /** The page it was found on is outside the site. */
  fromExternal?: boolean;
}

export interface Candidate extends Omit<NewUrl, 'seq'> {
  /** As it was found. */
  link: string;
}

const rememberedMax = 200_000;

export class Discovery {
  private readonly options: CrawlOptions;
  private readonly scope: Scope;
  private readonly seen = new Set<string>();

  constructor(options: CrawlOptions, scope: Scope) {
    this.options = options;
    this.scope = scope;
  }

  /** New to this run, as far as it remembers; rows that exist already must still be taken out. */
  candidates(links: readonly string[], origin: Origin): Candidate[] {
    return links.flatMap((link) => {
      if (this.seen.has(link)) return [];
      const candidate = this.place(link, origin);
      return candidate && !this.seen.has(candidate.key) ? candidate : [];
    });
  }

  /** They have their rows: not before, because a command that failed must find in its results what it found at first. */
  remember(candidates: readonly Candidate[]): void {
    for (const candidate of candidates) {
      if (this.dependsOnPlace(candidate)) continue;
      this.keep(candidate.link);
      this.keep(candidate.key);
    }
  }

  /** Other addresses belong to the crawl than before. */
  forget(): void {
    this.seen.clear();
  }

  /** One address whether or not it was seen: a redirect's or canonical link's target. */
  place(link: string, origin: Origin): Candidate | undefined {
    const parsed = URL.parse(link);
    if (!parsed) return undefined;
    const url = cleanUrl(parsed, this.options.query);
    const reason = this.scope.skip({
      url,
      depth: origin.depth,
      fromExternal: origin.fromExternal ?? false,
      isStart: origin.via === 'start',
    });
    const fate: Fate = reason === undefined ? 'queued' : 'skipped';
    return {
      link,
      key: urlKey(url),
      url: url.href,
      host: url.host,
      depth: origin.depth,
      parent: origin.parent,
      via: origin.via,
      fate,
      ...(reason === undefined ? {} : { reason }),
      ...(origin.hops === undefined ? {} : { hops: origin.hops }),
    };
  }

  /** Too far out from here; a page of the site itself may link to it too. */
  private dependsOnPlace({ reason }: Candidate): boolean {
    return reason === 'external' && this.options.externalLinks;
  }

  private keep(text: string): void {
    if (this.seen.size >= rememberedMax) {
      let excess = rememberedMax / 4;
      for (const old of this.seen) {
        if (excess-- === 0) break;
        this.seen.delete(old);
      }
    }
    this.seen.add(text);
  }
}
