// Finds and reads the sitemaps of a crawl's sites, file by file; what is left is kept with the crawl, so that a restart
// goes on with the next file.
import type { Fetch, Fetched } from '../fetch/fetcher.ts';
import type { Robots } from '../fetch/robots.ts';
import { readSitemap } from '../fetch/sitemap.ts';
import type { WebSettings } from '../settings.ts';
import { chunks } from '../store.ts';
import type { Crawl } from './crawl.ts';

export interface SitemapNeeds {
  fetch: Fetch;
  robots: Robots;
  settings: WebSettings;
}

const filesMax = 500;
const originsMax = 20;
const redirectsMax = 5;
const timeoutMs = 30_000;
const bytesMax = 50 * 1024 * 1024;
/** Enough to go on with: a site with millions of addresses must not be listed before its first page is read. */
const spare = 10;

export async function loadSitemaps(crawl: Crawl, needs: SitemapNeeds): Promise<void> {
  const { state } = crawl.row;
  const only = crawl.options.sitemap === 'only';
  if (crawl.options.maxDepth === 0 && !only) return;
  const { signal } = crawl.stop;
  if (!state.sitemaps) {
    state.sitemaps = await findSitemaps(crawl, needs);
    await crawl.writer.save();
  }
  const enough = crawl.options.maxPages * spare + 1000;
  const origin = { parent: null, depth: only ? 0 : 1, via: 'sitemap' } as const;
  for (let read = 0; state.sitemaps.length > 0 && read < filesMax && !signal.aborted; read++) {
    if ((crawl.writer.counts.queued ?? 0) >= enough) return;
    const file = state.sitemaps[0]!;
    const found = await fetchSitemap(file, crawl, needs);
    for (const chunk of chunks(found.urls, 1000)) {
      await crawl.writer.add(
        chunk.map(({ url }) => url),
        origin,
      );
    }
    const known = new Set(state.sitemaps);
    state.sitemaps.push(...found.files.filter((url) => !known.has(url)).slice(0, filesMax));
    state.sitemaps.shift();
    await crawl.writer.save();
  }
}

async function findSitemaps(crawl: Crawl, { robots }: SitemapNeeds): Promise<string[]> {
  const { options } = crawl;
  const starts = [options.url, ...(options.urls ?? [])].flatMap(
    (url) => URL.parse(url ?? '') ?? [],
  );
  const files = new Set<string>();
  for (const origin of [...new Set(starts.map((url) => url.origin))].slice(0, originsMax)) {
    const rules = await robots.rules(origin, crawl.stop.signal).catch(() => undefined);
    for (const url of rules?.sitemaps ?? []) files.add(url);
    if (!rules?.sitemaps.length && rules?.unreachable === undefined)
      files.add(`${origin}/sitemap.xml`);
  }
  return [...files];
}

async function fetchSitemap(file: string, crawl: Crawl, { fetch, settings }: SitemapNeeds) {
  const { signal } = crawl.stop;
  const headers = { 'user-agent': settings.userAgent };
  try {
    let url = file;
    let answer: Fetched | undefined;
    for (let hop = 0; hop <= redirectsMax; hop++) {
      answer = await fetch({ url, headers, timeoutMs, bytesMax, signal });
      const next =
        answer.status >= 300 && answer.status < 400
          ? URL.parse(answer.headers.location ?? '', url)
          : null;
      if (!next) break;
      url = next.href;
    }
    if (answer!.status === 200) return readSitemap(answer!.body, url);
    if (answer!.status !== 404 && answer!.status !== 410)
      crawl.warn(`${file} answered ${answer!.status}.`);
  } catch (error) {
    if (!signal.aborted)
      crawl.warn(`${file} could not be read: ${(error as Error).message.slice(0, 200)}`);
  }
  return { urls: [], files: [] };
}
