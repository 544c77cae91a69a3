// Engines that need a key: Brave, Tavily and SearchClaw. Without its key an engine does not exist.
import { askJson, isoDate, isWebUrl, plainText, type Answer, type AskOptions } from './ask.ts';
import { rowsFrom } from './window.ts';
import type { Engine, Found, FoundRow, Freshness, SearchParts, SearchRequest } from './types.ts';

export type Asker = (engine: string, signal: AbortSignal) => AskOptions;

export function keyedEngines(parts: SearchParts, asker: Asker): Engine[] {
  const { settings, secret } = parts;
  const engines: Engine[] = [];
  const brave = secret(settings.brave.keyName);
  const tavily = secret(settings.tavily.keyName);
  const searchclaw = secret(settings.searchclaw.keyName);
  if (brave) engines.push(braveEngine(settings.brave.url, brave, asker));
  if (tavily) engines.push(tavilyEngine(settings.tavily.url, tavily, asker));
  if (searchclaw) engines.push(searchclawEngine(settings.searchclaw.url, searchclaw, asker));
  return engines;
}

const braveFreshness: Record<Freshness, string> = {
  day: 'pd',
  week: 'pw',
  month: 'pm',
  year: 'py',
};
const braveCountMax = { web: 20, news: 50, images: 100 };
const bravePagesMax = 5;
const braveQueryCharsMax = 400;

function braveEngine(base: string, key: string, asker: Asker): Engine {
  const headers = { 'x-subscription-token': key };
  return {
    name: 'brave',
    general: true,
    kinds: ['web', 'news', 'images'],
    takes: ['language', 'country', 'safesearch', 'freshness'],
    search: (request, signal) => {
      const { kind, offset = 0, count } = request;
      const sizeMax = braveCountMax[kind];
      // Brave counts pages, we count rows; of pictures it has one page.
      const size = offset === 0 || kind === 'images' ? Math.min(offset + count, sizeMax) : sizeMax;
      const ask = async (page: number) => {
        const url = braveUrl(base, request, { size, page });
        const answer = await askJson(url, asker('Brave', signal), { headers });
        const rows = kind === 'web' ? answer.list('web', 'results') : answer.list('results');
        return rowsOf(rows, braveRow);
      };
      return kind === 'images'
        ? rowsFrom(request, { pagesMax: 1, ask })
        : rowsFrom(request, { size, pagesMax: bravePagesMax, ask });
    },
    async suggest(query, signal) {
      const url = new URL('/res/v1/suggest/search', base);
      url.searchParams.set('q', query);
      const answer = await askJson(url, asker('Brave', signal), { headers });
      return answer.list('results').flatMap((row) => row.text('query') ?? []);
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
  params.set('q', query.slice(0, braveQueryCharsMax));
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

function braveRow(row: Answer): Partial<FoundRow> {
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

const tavilyCountMax = 20;

function tavilyEngine(base: string, key: string, asker: Asker): Engine {
  return {
    name: 'tavily',
    general: true,
    kinds: ['web', 'news'],
    takes: ['freshness'],
    async search(request, signal) {
      const { offset = 0, count } = request;
      const body = JSON.stringify({
        query: request.query.slice(0, 400),
        max_results: Math.min(offset + count, tavilyCountMax),
        topic: request.kind === 'news' ? 'news' : 'general',
        ...(request.freshness ? { time_range: request.freshness } : {}),
      });
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const answer = await askJson(new URL('/search', base), asker('Tavily', signal), {
        method: 'POST',
        headers,
        body,
      });
      const rows = rowsOf(answer.list('results'), (row) => ({
        snippet: plainText(row.text('content')),
        published: isoDate(row.text('published_date')),
      }));
      // It has no pages: what comes after its longest answer cannot be had.
      return { rows: rows.slice(offset) };
    },
  };
}

function searchclawEngine(base: string, key: string, asker: Asker): Engine {
  const headers = { 'x-api-key': key };
  const ask = async (path: string, params: Record<string, string>, signal: AbortSignal) => {
    const url = new URL(`${base.replace(/\/$/, '')}/${path}`);
    for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value);
    return await askJson(url, asker('SearchClaw', signal), { headers });
  };
  return {
    name: 'searchclaw',
    general: true,
    kinds: ['web', 'news', 'images'],
    takes: ['language', 'country', 'safesearch', 'freshness'],
    async search(request, signal): Promise<Found> {
      const path = request.kind === 'web' ? 'search' : request.kind;
      const answer = await ask(path, searchclawParams(request), signal);
      const title = answer.text('infobox', 'title');
      return {
        rows: rowsOf(answer.list('results'), searchclawRow),
        suggestions: answer.list('suggestions').flatMap((entry) => entry.text() ?? []),
        ...(title ? { infobox: { title, content: answer.text('infobox', 'content') ?? '' } } : {}),
      };
    },
    async suggest(query, signal) {
      const answer = await ask('suggest', { q: query }, signal);
      return answer.list('suggestions').flatMap((entry) => entry.text() ?? []);
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

function searchclawRow(row: Answer): Partial<FoundRow> {
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

/** Rows with an address; absent fields stay away. */
export function rowsOf(
  list: readonly Answer[],
  more: (row: Answer) => Partial<FoundRow>,
): FoundRow[] {
  const rows: FoundRow[] = [];
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
