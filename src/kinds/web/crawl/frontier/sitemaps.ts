// Finds and reads the sitemaps of a crawl, file by file. Unread files are stored with the crawl, so a restart continues with
// the next file.
import type { Fetch } from '../../fetch/fetcher.ts';
import type { Robots } from '../../fetch/robots.ts';
import { fetchSitemap } from '../../fetch/sitemap.ts';
import type { WebSettings } from '../../settings.ts';
import { chunks } from '../../store/crawls.ts';
import type { CrawlRow } from '../../store/rows.ts';
import type { CrawlOptions } from '../options.ts';
import type { OwnHeaders } from '../visit/own-headers.ts';
import type { Origin } from './discovery.ts';
import { urlKey } from '../../url.ts';

/** The part of a crawl that reading sitemaps uses. */
export interface SitemapCrawl {
  readonly row: CrawlRow;
  readonly options: CrawlOptions;
  readonly stop: AbortController;
  /** True if the crawl is paused or stops. */
  readonly isHeld: boolean;
  readonly ownHeaders: OwnHeaders;
  readonly writer: {
    readonly counts: { queued?: number };
    save(): Promise<void>;
    add(urls: readonly string[], origin: Origin): Promise<void>;
  };
  readonly deps: { store: { startUrls(crawl: number, limit: number): Promise<string[]> } };
  warn(text: string): void;
  setCrawlDelay(host: string, delayMs: number): void;
  /** Runs a request at the host's pace. */
  inTurn<T>(host: string, ask: () => Promise<T>): Promise<T>;
}

interface SitemapDeps {
  fetch: Fetch;
  robots: Robots;
  settings: WebSettings;
}

const maxFiles = 500;
const maxStarts = 10_000;
const maxOrigins = 20;
const timeoutMs = 30_000;
const maxBytes = 50 * 1024 * 1024;
/** Breadth-first crawls need all sitemap URLs before the next depth, so they read further ahead. */
const aheadByDepth = 10;

/**
 * Reads sitemap files until enough URLs are queued, so that a site with millions of URLs does not delay its first page.
 * The remaining files are read when the queue is empty.
 */
export async function loadSitemaps(crawl: SitemapCrawl, deps: SitemapDeps): Promise<void> {
  const { state } = crawl.row;
  const only = crawl.options.sitemap === 'only';
  if (crawl.options.maxDepth === 0 && !only) return;
  if (!state.sitemaps) {
    const files = await findSitemaps(crawl, deps);
    if (crawl.stop.signal.aborted) return;
    state.sitemaps = files;
    await crawl.writer.save();
  }
  const { maxPages, maxDepth } = crawl.options;
  const enough = maxDepth === undefined ? maxPages : maxPages * aheadByDepth + 1000;
  const origin = { parent: null, depth: only ? 0 : 1, via: 'sitemap' } as const;
  const read = (state.sitemapsRead ??= []);
  while (state.sitemaps.length > 0 && !crawl.isHeld) {
    if ((crawl.writer.counts.queued ?? 0) >= enough) return;
    if (read.length >= maxFiles) {
      crawl.warn(`The site has more than ${maxFiles} sitemap files. The rest was not read.`);
      state.sitemaps = [];
      return;
    }
    const file = state.sitemaps[0]!;
    const found = await readFile(file, crawl, deps);
    // Aborted halfway: the next run reads it again.
    if (crawl.stop.signal.aborted) return;
    for (const chunk of chunks(found.urls, 1000)) {
      await crawl.writer.add(
        chunk.map(({ url }) => url),
        origin,
      );
    }
    read.push(markOf(file));
    const known = new Set([...state.sitemaps, ...read]);
    const files = found.files.filter((url) => !known.has(url) && !known.has(markOf(url)));
    state.sitemaps.push(...new Set(files.slice(0, maxFiles)));
    state.sitemaps.shift();
    await crawl.writer.save();
  }
}

const markOf = (file: string): string => urlKey(new URL(file)).slice(0, 10);

async function findSitemaps(crawl: SitemapCrawl, { robots }: SitemapDeps): Promise<string[]> {
  const starts = await crawl.deps.store.startUrls(crawl.row.crawl, maxStarts);
  const files = new Set<string>();
  for (const origin of [...new Set(starts.map((url) => new URL(url).origin))].slice(
    0,
    maxOrigins,
  )) {
    const rules = await robots.rules(origin, crawl.stop.signal).catch(() => undefined);
    if (rules?.crawlDelayMs !== undefined)
      crawl.setCrawlDelay(new URL(origin).host, rules.crawlDelayMs);
    for (const url of rules?.sitemaps ?? []) files.add(url);
    if (!rules?.sitemaps.length && rules?.unreachable === undefined)
      files.add(`${origin}/sitemap.xml`);
  }
  return [...files];
}

async function readFile(file: string, crawl: SitemapCrawl, { fetch, settings }: SitemapDeps) {
  const { signal } = crawl.stop;
  const ask = (url: string) => {
    const at = new URL(url);
    const headers = { 'user-agent': settings.userAgent, ...crawl.ownHeaders.for(at) };
    return crawl.inTurn(at.host, () => fetch({ url, headers, timeoutMs, maxBytes, signal }));
  };
  try {
    const sitemap = await fetchSitemap(file, ask);
    if (sitemap) return sitemap;
  } catch (error) {
    if (!signal.aborted)
      crawl.warn(`${file} could not be read: ${(error as Error).message.slice(0, 200)}`);
  }
  return { urls: [], files: [] };
}
