// Sources with documented APIs that need no key: Wikipedia, Openverse and Wikimedia Commons for images, GDELT
// for news, and the operator's feeds. None of them searches the whole web.
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { htmlparser2 } from '../../../runtime/packages.ts';
import { collectRows } from './paging.ts';
import {
  JsonValue,
  fetchJson,
  fetchText,
  isoDate,
  isWebUrl,
  plainText,
  type FetchOptions,
} from './engine-fetch.ts';
import { toRows, type FetchOptionsFactory } from './keyed.ts';
import type {
  Engine,
  EngineResult,
  EngineRow,
  Freshness,
  SearchDeps,
  SearchRequest,
} from './types.ts';

export function keylessEngines(
  { settings, clock }: SearchDeps,
  fetchOptions: FetchOptionsFactory,
): Engine[] {
  return [
    wikipediaEngine(settings.wikipedia.url, fetchOptions),
    openverseEngine(settings.openverse.url, fetchOptions),
    commonsEngine(settings.commons.url, fetchOptions),
    gdeltEngine(settings.gdelt.url, fetchOptions),
    ...(settings.feeds.length > 0 ? [feedsEngine(settings.feeds, fetchOptions, clock)] : []),
  ];
}

function apiUrl(base: string, params: Record<string, string | number>): URL {
  const url = new URL('/w/api.php', base);
  for (const [name, value] of Object.entries({ ...params, format: 'json', formatversion: 2 })) {
    url.searchParams.set(name, String(value));
  }
  return url;
}

/** Replaces en.wikipedia.org with the wiki of the requested language. A custom wiki URL stays unchanged. */
function inLanguage(base: string, language: string | undefined): string {
  if (language === undefined || !/^[a-z]{2,3}$/.test(language)) return base;
  return base.replace(/^(https?:\/\/)[a-z-]+(?=\.wikipedia\.org)/, `$1${language}`);
}

function wikipediaEngine(base: string, fetchOptions: FetchOptionsFactory): Engine {
  return {
    name: 'wikipedia',
    general: false,
    kinds: ['web'],
    supports: ['language'],
    async search({ query, count, offset = 0, language }, signal) {
      const home = inLanguage(base, language);
      const url = apiUrl(home, {
        action: 'query',
        list: 'search',
        srsearch: query.slice(0, 300),
        srlimit: count,
        sroffset: offset,
        srinfo: 'suggestion',
      });
      const response = await fetchJson(url, fetchOptions('Wikipedia', signal));
      const suggestion = response.text('query', 'searchinfo', 'suggestion');
      const rows = toRows(response.list('query', 'search'), (row) => ({
        url: articleUrl(home, row.text('title')),
        snippet: plainText(row.text('snippet')),
      }));
      return { rows, suggestions: suggestion === undefined ? [] : [suggestion] };
    },
    async suggest(query, signal, language) {
      const url = apiUrl(inLanguage(base, language), {
        action: 'opensearch',
        search: query.slice(0, 300),
        limit: 10,
      });
      const response = await fetchJson(url, fetchOptions('Wikipedia', signal));
      return (response.list()[1]?.list() ?? []).flatMap((entry) => entry.text() ?? []);
    },
  };
}

function articleUrl(home: string, title: string | undefined): string | undefined {
  if (title === undefined) return undefined;
  return new URL(`/wiki/${encodeURIComponent(title.replace(/ /g, '_'))}`, home).href;
}

/** The limit for requests without an API key. */
const maxOpenverseCount = 20;
const maxOpenversePages = 5;

function openverseEngine(base: string, fetchOptions: FetchOptionsFactory): Engine {
  return {
    name: 'openverse',
    general: false,
    kinds: ['images'],
    supports: ['safesearch'],
    search: (request, signal) => {
      const size =
        (request.offset ?? 0) > 0 ? maxOpenverseCount : Math.min(request.count, maxOpenverseCount);
      const loadPage = async (page: number) => {
        const url = new URL('/v1/images/', base);
        url.searchParams.set('q', request.query.slice(0, 200));
        url.searchParams.set('page_size', String(size));
        url.searchParams.set('page', String(1 + page));
        if (request.safesearch === 0) url.searchParams.set('mature', 'true');
        const response = await fetchJson(url, fetchOptions('Openverse', signal));
        return toRows(response.list('results'), openverseRow);
      };
      return collectRows(request, { size, maxPages: maxOpenversePages, loadPage });
    },
  };
}

const openverseRow = (row: JsonValue): Partial<EngineRow> => ({
  url: row.text('foreign_landing_url'),
  snippet: plainText(row.text('attribution') ?? row.text('creator')),
  source: row.text('source'),
  imageUrl: row.text('url'),
  thumbnailUrl: row.text('thumbnail'),
  width: row.number('width'),
  height: row.number('height'),
  license: row.text('license'),
});

function commonsEngine(base: string, fetchOptions: FetchOptionsFactory): Engine {
  return {
    name: 'commons',
    general: false,
    kinds: ['images'],
    supports: [],
    async search({ query, count, offset = 0 }, signal) {
      const url = apiUrl(base, {
        action: 'query',
        generator: 'search',
        gsrsearch: `filetype:bitmap|drawing ${query.slice(0, 250)}`,
        gsrnamespace: 6,
        gsrlimit: count,
        gsroffset: offset,
        prop: 'imageinfo',
        iiprop: 'url|size|extmetadata',
        iiurlwidth: 320,
      });
      const response = await fetchJson(url, fetchOptions('Wikimedia Commons', signal));
      const pages = response.list('query', 'pages');
      const ordered = pages.toSorted((a, b) => (a.number('index') ?? 0) - (b.number('index') ?? 0));
      return { rows: toRows(ordered, commonsRow) };
    },
  };
}

function commonsRow(page: JsonValue): Partial<EngineRow> {
  const info = page.list('imageinfo')[0];
  return {
    title: page
      .text('title')
      ?.replace(/^File:/, '')
      .replace(/\.\w+$/, ''),
    url: info?.text('descriptionurl'),
    snippet: plainText(info?.text('extmetadata', 'ImageDescription', 'value')),
    imageUrl: info?.text('url'),
    thumbnailUrl: info?.text('thumburl'),
    width: info?.number('width'),
    height: info?.number('height'),
    license: info?.text('extmetadata', 'LicenseShortName', 'value'),
  };
}

const gdeltSpans: Record<Freshness, string> = { day: '1d', week: '7d', month: '1m', year: '12m' };

function gdeltEngine(base: string, fetchOptions: FetchOptionsFactory): Engine {
  return {
    name: 'gdelt',
    general: false,
    kinds: ['news'],
    supports: ['freshness'],
    async search(request, signal) {
      const url = gdeltUrl(base, request);
      const text = await fetchText(url, fetchOptions('GDELT', signal));
      const response = parseGdelt(text);
      const rows = toRows(response.list('articles'), (row) => ({
        source: row.text('domain'),
        published: isoDate(row.text('seendate')),
        thumbnailUrl: row.text('socialimage'),
      }));
      return { rows: rows.slice(request.offset ?? 0) };
    },
  };
}

function gdeltUrl(base: string, { query, count, offset = 0, freshness }: SearchRequest): URL {
  const url = new URL('/api/v2/doc/doc', base);
  const { searchParams: params } = url;
  params.set('query', query.slice(0, 250));
  params.set('mode', 'artlist');
  params.set('format', 'json');
  params.set('sort', 'hybridrel');
  params.set('maxrecords', String(Math.min(count + offset, 250)));
  if (freshness) params.set('timespan', gdeltSpans[freshness]);
  return url;
}

/** GDELT reports errors as plain text with status 200. */
function parseGdelt(text: string): JsonValue {
  const parsed = parseJson(text);
  if (parsed) return parsed;
  throw new AppError('unavailable', `GDELT rejected the query: ${plainText(text).slice(0, 200)}`, {
    hint: /limit|too many|second/i.test(text)
      ? 'GDELT accepts one request every few seconds. Try again shortly.'
      : 'GDELT needs words of at least three letters. Try other words.',
  });
}

function parseJson(text: string): JsonValue | undefined {
  try {
    return new JsonValue(JSON.parse(text));
  } catch {
    return undefined;
  }
}

const maxConcurrentFeeds = 10;

/** Searches the operator's feeds for entries that contain every word of the query. */
function feedsEngine(
  feeds: readonly string[],
  fetchOptions: FetchOptionsFactory,
  clock: Clock,
): Engine {
  return {
    name: 'feeds',
    general: false,
    kinds: ['news'],
    supports: ['freshness'],
    async search({ query, count, offset = 0, freshness }, signal) {
      const found: EngineResult = { rows: [], warnings: [] };
      const words = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
      for (let i = 0; i < feeds.length; i += maxConcurrentFeeds) {
        const some = feeds.slice(i, i + maxConcurrentFeeds);
        await Promise.all(
          some.map((feed) => readFeed(feed, words, found, fetchOptions('The feed', signal))),
        );
      }
      signal.throwIfAborted();
      assertAnyFeedRead(found, feeds.length);
      const since = freshness ? new Date(clock.now() - spanMs[freshness]).toISOString() : '';
      const sorted = found.rows
        .filter(({ published = '' }) => published >= since)
        .toSorted((a, b) => (b.published ?? '').localeCompare(a.published ?? ''));
      return { ...found, rows: sorted.slice(offset, offset + count) };
    },
  };
}

const dayMs = 86_400_000;
const spanMs: Record<Freshness, number> = {
  day: dayMs,
  week: 7 * dayMs,
  month: 31 * dayMs,
  year: 366 * dayMs,
};

/** A failed feed is a warning. The search fails only when all feeds fail. */
function assertAnyFeedRead({ warnings = [] }: EngineResult, feeds: number): void {
  if (warnings.length < feeds) return;
  throw new AppError('unavailable', `No feed could be read: ${warnings.slice(0, 5).join('; ')}`, {
    hint: 'Check web.search.feeds in config.json.',
  });
}

async function readFeed(
  address: string,
  words: readonly string[],
  found: EngineResult,
  options: FetchOptions,
): Promise<void> {
  try {
    const feed = htmlparser2().parseFeed(await fetchText(new URL(address), options), {
      xmlMode: true,
    });
    for (const item of feed?.items ?? []) {
      const title = plainText(item.title);
      const snippet = plainText(item.description);
      const text = `${title} ${snippet}`.toLowerCase();
      const url = item.link === undefined ? undefined : URL.parse(item.link, address)?.href;
      if (!isWebUrl(url) || !words.every((word) => text.includes(word))) continue;
      const time = item.pubDate?.getTime();
      const published =
        time === undefined || Number.isNaN(time) ? undefined : new Date(time).toISOString();
      const source = feed?.title === undefined ? new URL(address).host : plainText(feed.title);
      found.rows.push({
        title: title || url,
        url,
        snippet,
        source,
        ...(published ? { published } : {}),
      });
    }
    if (!feed) found.warnings!.push(`${address}: not a feed`);
  } catch (error) {
    found.warnings!.push(`${address}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
