// Turns links into candidate rows: normalizes URLs and decides whether they are in scope. Keeps a bounded set of known
// URLs, because most links of a site repeat.
import type { CrawlOptions } from '../options.ts';
import type { Scope } from './scope.ts';
import { cleanUrl, urlKey } from '../../url.ts';
import type { UrlOutcome, NewUrl } from '../../store/rows.ts';

export interface Origin {
  /** Row of the page with the link. Null for starts and sitemaps. */
  parent: number | null;
  depth: number;
  via: 'start' | 'link' | 'sitemap' | 'redirect' | 'canonical' | 'earlier';
  hops?: number;
  /** The page with the link is outside the site. */
  fromExternal?: boolean;
}

export interface Candidate extends Omit<NewUrl, 'seq'> {
  /** The link before normalization. */
  link: string;
}

const maxRemembered = 200_000;

export class Discovery {
  private readonly options: CrawlOptions;
  private readonly scope: Scope;
  private readonly seen = new Set<string>();

  constructor(options: CrawlOptions, scope: Scope) {
    this.options = options;
    this.scope = scope;
  }

  /** Candidates that this run does not remember. Some may already have a row. */
  candidates(links: readonly string[], origin: Origin): Candidate[] {
    return links.flatMap((link) => {
      if (this.seen.has(link)) return [];
      const candidate = this.place(link, origin);
      return candidate && !this.seen.has(candidate.key) ? candidate : [];
    });
  }

  /** Called after the rows are committed. Earlier would lose links when a failed transaction is repeated. */
  remember(candidates: readonly Candidate[]): void {
    for (const candidate of candidates) {
      if (this.dependsOnPlace(candidate)) continue;
      this.keep(candidate.link);
      this.keep(candidate.key);
    }
  }

  /** Called when the scope changes. */
  forget(): void {
    this.seen.clear();
  }

  /** Builds a candidate even for a known URL: the target of a redirect or canonical link. */
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
    const outcome: UrlOutcome = reason === undefined ? 'queued' : 'skipped';
    return {
      link,
      key: urlKey(url),
      url: url.href,
      host: url.host,
      depth: origin.depth,
      parent: origin.parent,
      via: origin.via,
      outcome,
      ...(reason === undefined ? {} : { reason }),
      ...(origin.hops === undefined ? {} : { hops: origin.hops }),
    };
  }

  /** Out of scope from an external page, but a page of the site may link to it too. */
  private dependsOnPlace({ reason }: Candidate): boolean {
    return reason === 'external' && this.options.externalLinks;
  }

  private keep(text: string): void {
    if (this.seen.size >= maxRemembered) {
      let excess = maxRemembered / 4;
      for (const old of this.seen) {
        if (excess-- === 0) break;
        this.seen.delete(old);
      }
    }
    this.seen.add(text);
  }
}
