// Decides which URLs belong to a crawl, and why others are skipped. Pure: runs once per URL, when it is found.
import type { CrawlOptions } from '../options.ts';
import { compilePatterns, type Matcher } from './patterns.ts';
import type { CrawlState } from '../../store/rows.ts';
import { loopsInPath, registrableDomain, maxUrlChars } from '../../url.ts';

type SkipReason =
  | 'scheme'
  | 'urlTooLong'
  | 'pathLoop'
  | 'fileType'
  | 'external'
  | 'outsidePath'
  | 'excluded'
  | 'notIncluded'
  | 'tooDeep'
  | 'onDuplicate'
  | 'nofollow'
  | 'pathBudget'
  | 'similarPages';

interface Placed {
  url: URL;
  depth: number;
  /** Found on a page outside the site. `externalLinks` follows only one click out. */
  fromExternal: boolean;
  isStart: boolean;
}

const otherFiles =
  /\.(?:7z|aac|avi|avif|bin|bmp|bz2|css|dmg|doc|docx|eot|epub|exe|flac|flv|gif|gz|ico|iso|jar|jpe?g|js|m4a|m4v|map|mjs|mkv|mov|mp3|mp4|mpe?g|msi|odp|ods|odt|ogg|ogv|otf|png|ppt|pptx|rar|rpm|svg|swf|tar|tgz|tiff?|ttf|wasm|wav|webm|webp|wmv|woff2?|xls|xlsx|xz|zip)$/i;

export class Scope {
  private readonly options: CrawlOptions;
  private readonly included: Matcher | undefined;
  private readonly excluded: Matcher | undefined;
  private hosts = new Set<string>();
  private domains = new Set<string>();
  private folders: string[] = [];

  constructor(options: CrawlOptions, state: Pick<CrawlState, 'hosts' | 'folders'>) {
    this.options = options;
    this.included = options.include?.length ? compilePatterns(options.include) : undefined;
    this.excluded = options.exclude?.length ? compilePatterns(options.exclude) : undefined;
    this.widen(state);
  }

  widen({ hosts, folders }: Pick<CrawlState, 'hosts' | 'folders'>): void {
    this.hosts = new Set(hosts.map(bareHost));
    this.domains = new Set(hosts.map((host) => registrableDomain(host.replace(/:\d+$/, ''))));
    this.folders = folders.map(bareHost);
  }

  /** Returns the skip reason, or undefined if the URL is in scope. */
  skip({ url, depth, fromExternal, isStart }: Placed): SkipReason | undefined {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'scheme';
    if (isStart) return undefined;
    if (url.href.length > maxUrlChars) return 'urlTooLong';
    if (loopsInPath(url.pathname)) return 'pathLoop';
    if (otherFiles.test(url.pathname)) return 'fileType';
    if (this.isExternal(url)) {
      if (!this.options.externalLinks || fromExternal) return 'external';
    } else if (this.options.scope === 'path' && !this.isBelow(url)) return 'outsidePath';
    const unmatched = this.unmatched(url);
    if (unmatched !== undefined) return unmatched;
    if (this.options.maxDepth !== undefined && depth > this.options.maxDepth) return 'tooDeep';
    return undefined;
  }

  /** The reason to skip a start URL after it was read for its links (`startsMatch`). */
  skipStart(url: URL): SkipReason | undefined {
    return this.options.startsMatch ? this.unmatched(url) : undefined;
  }

  private unmatched(url: URL): SkipReason | undefined {
    const text = this.options.patternsOn === 'path' ? url.pathname : url.href;
    if (this.excluded?.(text)) return 'excluded';
    return this.included && !this.included(text) ? 'notIncluded' : undefined;
  }

  isExternal(url: URL): boolean {
    if (this.hosts.has(bareHost(url.host))) return false;
    if (!this.options.subdomains) return true;
    return !this.domains.has(registrableDomain(url.hostname));
  }

  private isBelow(url: URL): boolean {
    const place = bareHost(`${url.host}${url.pathname}`);
    return this.folders.some((folder) => place.startsWith(folder) || `${place}/` === folder);
  }
}

/** Removes `www.`: sites link to themselves with and without it. */
export const bareHost = (host: string): string => host.replace(/^www\./, '');

/** The folder of a start URL: `/docs/` for both `/docs/intro` and `/docs/`. */
export function folderOf(url: URL): string {
  return `${url.host}${url.pathname.replace(/[^/]*$/, '')}`;
}
