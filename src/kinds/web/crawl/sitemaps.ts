// Finds and reads the sitemaps of a crawl's sites, file by file; what is left is kept with the crawl, so that a restart
// goes on with the next file.
import type { Fetch } from '../fetch/fetcher.ts';
import type { Robots } from '../fetch/robots.ts';
import { fetchSitemap } from '../fetch/sitemap.ts';
import type { WebSettings } from '../settings.ts';
import { chunks } from '../store.ts';
import type { Crawl } from './crawl.ts';
import { urlKey } from './url.ts';

export interface SitemapNeeds {
  fetch: Fetch;
  robots: Robots;
  settings: WebSettings;
}

const filesMax = 500;
const startsMax = 10_000;
const originsMax = 20;
const timeoutMs = 30_000;
const bytesMax = 50 * 1024 * 1024;
/** Depth by depth, all that sitemaps name comes before the next depth: read well ahead. */
const aheadByDepth = 10;

/**
 * Reads until there is enough to go on with: a site with millions of addresses must not be listed before its first page
 * is read. The files that are left are read when nothing waits any more.
 */
export async function loadSitemaps(crawl: Crawl, needs: SitemapNeeds): Promise<void> {
  const { state } = crawl.row;
  const only = crawl.options.sitemap === 'only';
  if (crawl.options.maxDepth === 0 && !only) return;
  if (!state.sitemaps) {
    const files = await findSitemaps(crawl, needs);
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
    if (read.length >= filesMax) {
      crawl.warn(`More than ${filesMax} sitemap files; the rest was not read.`);
      state.sitemaps = [];
      return;
    }
    const file = state.sitemaps[0]!;
    const found = await readFile(file, crawl, needs);
    // Given up halfway: the next run reads it.
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
    state.sitemaps.push(...new Set(files.slice(0, filesMax)));
    state.sitemaps.shift();
    await crawl.writer.save();
  }
}

const markOf = (file: string): string => urlKey(new URL(file)).slice(0, 10);

async function findSitemaps(crawl: Crawl, { robots }: SitemapNeeds): Promise<string[]> {
  const starts = await crawl.needs.store.startUrls(crawl.row.crawl, startsMax);
  const files = new Set<string>();
  for (const origin of [...new Set(starts.map((url) => new URL(url).origin))].slice(
    0,
    originsMax,
  )) {
    const rules = await robots.rules(origin, crawl.stop.signal).catch(() => undefined);
    if (rules?.crawlDelayMs !== undefined)
      crawl.keepDelay(new URL(origin).host, rules.crawlDelayMs);
    for (const url of rules?.sitemaps ?? []) files.add(url);
    if (!rules?.sitemaps.length && rules?.unreachable === undefined)
      files.add(`${origin}/sitemap.xml`);
  }
  return [...files];
}

async function readFile(file: string, crawl: Crawl, { fetch, settings }: SitemapNeeds) {
  const { signal } = crawl.stop;
  const ask = (url: string) => {
    const at = new URL(url);
    const headers = { 'user-agent': settings.userAgent, ...crawl.ownHeaders.for(at) };
    return crawl.inTurn(at.host, () => fetch({ url, headers, timeoutMs, bytesMax, signal }));
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
