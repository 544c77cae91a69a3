// Engines that need an API key: Brave, Tavily and SearchClaw. An engine without its key is not available.
import {
  fetchJson,
  isoDate,
  isWebUrl,
  plainText,
  type JsonValue,
  type FetchOptions,
} from './engine-fetch.ts';
import { collectRows } from './paging.ts';
import type {
  Engine,
  EngineResult,
  EngineRow,
  Freshness,
  SearchDeps,
  SearchRequest,
} from './types.ts';

export type FetchOptionsFactory = (engine: string, signal: AbortSignal) => FetchOptions;

export function keyedEngines(deps: SearchDeps, fetchOptions: FetchOptionsFactory): Engine[] {
  const { settings, secret } = deps;
  const engines: Engine[] = [];
  const brave = secret(settings.brave.keyName);
  const tavily = secret(settings.tavily.keyName);
  const searchclaw = secret(settings.searchclaw.keyName);
  if (brave) engines.push(braveEngine(settings.brave.url, brave, fetchOptions));
  if (tavily) engines.push(tavilyEngine(settings.tavily.url, tavily, fetchOptions));
  if (searchclaw) engines.push(searchclawEngine(settings.searchclaw.url, searchclaw, fetchOptions));
  return engines;
}

const braveFreshness: Record<Freshness, string> = {
  day: 'pd',
  week: 'pw',
  month: 'pm',
  year: 'py',
};
const maxBraveCount = { web: 20, news: 50, images: 100 };
const maxBravePages = 5;
const maxBraveQueryChars = 400;

function braveEngine(base: string, key: string, fetchOptions: FetchOptionsFactory): Engine {
  const headers = { 'x-subscription-token': key };
  return {
    name: 'brave',
    general: true,
    kinds: ['web', 'news', 'images'],
    supports: ['language', 'country', 'safesearch', 'freshness'],
    search: (request, signal) => {
      const { kind, offset = 0, count } = request;
      const maxSize = maxBraveCount[kind];
      // Brave counts pages, we count rows. Image search has only one page.
      const size = offset === 0 || kind === 'images' ? Math.min(offset + count, maxSize) : maxSize;
      const loadPage = async (page: number) => {
        const url = braveUrl(base, request, { size, page });
        const response = await fetchJson(url, fetchOptions('Brave', signal), { headers });
        const rows = kind === 'web' ? response.list('web', 'results') : response.list('results');
        return toRows(rows, braveRow);
      };
      return kind === 'images'
        ? collectRows(request, { maxPages: 1, loadPage })
        : collectRows(request, { size, maxPages: maxBravePages, loadPage });
    },
    async suggest(query, signal) {
      const url = new URL('/res/v1/suggest/search', base);
      url.searchParams.set('q', query);
      const response = await fetchJson(url, fetchOptions('Brave', signal), { headers });
      return response.list('results').flatMap((row) => row.text('query') ?? []);
    },
  };
}

function braveUrl(
  base: string,
  { kind, query, language, country, safesearch, freshness }: SearchRequest,
  { size, page }: { size: number; page: number },
): URL {
  const url = new URL(`/res/v1/${kind}/search`, base);
  const { searchParams: params } = url;
  params.set('q', query.slice(0, maxBraveQueryChars));
  params.set('count', String(size));
  if (page > 0) params.set('offset', String(page));
  if (language) params.set('search_lang', language);
  if (country) params.set('country', country.toUpperCase());
  if (safesearch !== undefined) {
    const strictest = kind === 'images' ? 'strict' : 'moderate';
    params.set('safesearch', ['off', strictest, 'strict'][safesearch]!);
  }
  if (freshness && kind !== 'images') params.set('freshness', braveFreshness[freshness]);
  return url;
}

function braveRow(row: JsonValue): Partial<EngineRow> {
  return {
    snippet: plainText(row.text('description')),
    source: row.text('meta_url', 'hostname') ?? row.text('source'),
    published: isoDate(row.text('page_age')),
    thumbnailUrl: row.text('thumbnail', 'src'),
    imageUrl: row.text('properties', 'url'),
    width: row.number('properties', 'width'),
    height: row.number('properties', 'height'),
  };
}

const maxTavilyCount = 20;

function tavilyEngine(base: string, key: string, fetchOptions: FetchOptionsFactory): Engine {
  return {
    name: 'tavily',
    general: true,
    kinds: ['web', 'news'],
    supports: ['freshness'],
    async search(request, signal) {
      const { offset = 0, count } = request;
      const body = JSON.stringify({
        query: request.query.slice(0, 400),
        max_results: Math.min(offset + count, maxTavilyCount),
        topic: request.kind === 'news' ? 'news' : 'general',
        ...(request.freshness ? { time_range: request.freshness } : {}),
      });
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await fetchJson(new URL('/search', base), fetchOptions('Tavily', signal), {
        method: 'POST',
        headers,
        body,
      });
      const rows = toRows(response.list('results'), (row) => ({
        snippet: plainText(row.text('content')),
        published: isoDate(row.text('published_date')),
      }));
      // Tavily has no pages, so rows beyond its largest result are not available.
      return { rows: rows.slice(offset) };
    },
  };
}

function searchclawEngine(base: string, key: string, fetchOptions: FetchOptionsFactory): Engine {
  const headers = { 'x-api-key': key };
  const call = async (path: string, params: Record<string, string>, signal: AbortSignal) => {
    const url = new URL(`${base.replace(/\/$/, '')}/${path}`);
    for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value);
    return await fetchJson(url, fetchOptions('SearchClaw', signal), { headers });
  };
  return {
    name: 'searchclaw',
    general: true,
    kinds: ['web', 'news', 'images'],
    supports: ['language', 'country', 'safesearch', 'freshness'],
    async search(request, signal): Promise<EngineResult> {
      const path = request.kind === 'web' ? 'search' : request.kind;
      const response = await call(path, searchclawParams(request), signal);
      const title = response.text('infobox', 'title');
      return {
        rows: toRows(response.list('results'), searchclawRow),
        suggestions: response.list('suggestions').flatMap((entry) => entry.text() ?? []),
        ...(title
          ? { infobox: { title, content: response.text('infobox', 'content') ?? '' } }
          : {}),
      };
    },
    async suggest(query, signal) {
      const response = await call('suggest', { q: query }, signal);
      return response.list('suggestions').flatMap((entry) => entry.text() ?? []);
    },
  };
}

function searchclawParams(request: SearchRequest): Record<string, string> {
  const { query, count, offset, language, country, freshness, safesearch } = request;
  return {
    q: query,
    count: String(Math.min(count, 50)),
    ...(offset ? { offset: String(offset) } : {}),
    ...(language ? { language } : {}),
    ...(country ? { country } : {}),
    ...(freshness ? { freshness } : {}),
    ...(safesearch === undefined ? {} : { safesearch: String(safesearch) }),
  };
}

function searchclawRow(row: JsonValue): Partial<EngineRow> {
  return {
    snippet: plainText(row.text('snippet')),
    source: row.text('source_name') ?? row.text('source'),
    published: isoDate(row.text('published_date')),
    thumbnailUrl: row.text('thumbnail_url') ?? row.text('thumbnail'),
    imageUrl: row.text('img_src') ?? row.text('source_url'),
    width: row.number('width'),
    height: row.number('height'),
  };
}

/** Keeps rows with a web URL, and leaves out absent fields. */
export function toRows(
  list: readonly JsonValue[],
  more: (row: JsonValue) => Partial<EngineRow>,
): EngineRow[] {
  const rows: EngineRow[] = [];
  for (const entry of list) {
    const own = more(entry);
    const url = own.url ?? entry.text('url');
    if (!isWebUrl(url)) continue;
    const title = plainText(own.title ?? entry.text('title')) || url;
    const given = Object.fromEntries(
      Object.entries(own).filter(([, value]) => value !== undefined),
    );
    rows.push({ snippet: '', ...given, title, url });
  }
  return rows;
}
