// SearXNG, a self-hosted metasearch engine. Diagnoses the common problems: JSON is not an enabled format
// (403), its limiter blocks us, or its engines are blocked.
import { AppError } from '../../../errors.ts';
import { fetchJson, isoDate, plainText, type JsonValue } from './engine-fetch.ts';
import { toRows, type FetchOptionsFactory } from './keyed.ts';
import { collectRows } from './paging.ts';
import type { Engine, EngineResult, EngineRow, SearchKind, SearchRequest } from './types.ts';

const categories: Record<SearchKind, string> = { web: 'general', news: 'news', images: 'images' };
/** A page has ten or more rows. */
const maxPages = 10;

export function searxngEngine(base: string, fetchOptions: FetchOptionsFactory): Engine {
  const options = (signal: AbortSignal) => ({ ...fetchOptions('SearXNG', signal), diagnose });
  return {
    name: 'searxng',
    general: true,
    kinds: ['web', 'news', 'images'],
    supports: ['language', 'country', 'safesearch', 'freshness'],
    async search(request, signal) {
      const extras: EngineResult = { rows: [] };
      // SearXNG sets the page size itself and has no parameter for the number of rows.
      const { rows, warnings = [] } = await collectRows(request, {
        maxPages,
        loadPage: async (page) => {
          const response = await fetchJson(searchUrl(base, request, page + 1), options(signal));
          const found = toRows(response.list('results'), searxngRow);
          if (page === 0) Object.assign(extras, readExtras(response));
          if (page === 0 && found.length === 0) assertEnginesResponded(response);
          return found;
        },
      });
      return { ...extras, rows, warnings: [...(extras.warnings ?? []), ...warnings] };
    },
    async suggest(query, signal) {
      const url = new URL('autocompleter', withTrailingSlash(base));
      url.searchParams.set('q', query);
      const response = await fetchJson(url, options(signal));
      // ["query", ["one", "two"]] for browsers, ["one", "two"] for scripts.
      const list = response.list();
      const words = Array.isArray(list[1]?.value) ? list[1].list() : list;
      return words.flatMap((entry) => entry.text() ?? []);
    },
  };
}

function withTrailingSlash(base: string): string {
  return base.endsWith('/') ? base : `${base}/`;
}

function searchUrl(base: string, request: SearchRequest, page: number): URL {
  const url = new URL('search', withTrailingSlash(base));
  const { searchParams: params } = url;
  params.set('q', request.query);
  params.set('format', 'json');
  params.set('categories', categories[request.kind]);
  if (page > 1) params.set('pageno', String(page));
  const { language, country } = request;
  // SearXNG combines language and country in one code: de-CH.
  if (language) params.set('language', country ? `${language}-${country.toUpperCase()}` : language);
  if (request.safesearch !== undefined) params.set('safesearch', String(request.safesearch));
  if (request.freshness) params.set('time_range', request.freshness);
  return url;
}

function searxngRow(row: JsonValue): Partial<EngineRow> {
  const [width, height] = (row.text('resolution') ?? '').split(/\D+/).map(Number);
  return {
    snippet: plainText(row.text('content')),
    source: row.text('engine'),
    published: isoDate(row.text('publishedDate')),
    imageUrl: absolute(row.text('img_src')),
    thumbnailUrl: absolute(row.text('thumbnail_src') ?? row.text('thumbnail')),
    ...(width && height ? { width, height } : {}),
  };
}

function absolute(address: string | undefined): string | undefined {
  return address?.startsWith('//') ? `https:${address}` : address;
}

function readExtras(response: JsonValue): Omit<EngineResult, 'rows'> {
  const box = response.list('infoboxes')[0];
  const title = box?.text('infobox');
  const url = box?.list('urls')[0]?.text('url');
  const content = plainText(box?.text('content'));
  return {
    suggestions: response.list('suggestions').flatMap((entry) => entry.text() ?? []),
    ...(title ? { infobox: { title, content, ...(url ? { url } : {}) } } : {}),
    warnings: unresponsiveEngines(response),
  };
}

/** Returns the SearXNG engines that did not respond, each with its reason. */
function unresponsiveEngines(response: JsonValue): string[] {
  return response.list('unresponsive_engines').map((entry) => {
    const [name, reason] = entry.list();
    return `${name?.text() ?? 'an engine'}: ${reason?.text() ?? 'no response'}`;
  });
}

/** An empty result is not valid if engines failed. */
function assertEnginesResponded(response: JsonValue): void {
  const reasons = unresponsiveEngines(response);
  if (reasons.length === 0) return;
  const details = reasons.slice(0, 5).join('; ');
  throw new AppError('unavailable', `SearXNG found nothing, and its engines failed: ${details}`, {
    hint: 'Try again later, or enable other engines in its settings.yml.',
  });
}

function diagnose(status: number, body: string): AppError | undefined {
  if (status === 403) {
    return new AppError('unavailable', 'SearXNG refused to return JSON (403).', {
      hint:
        'Add `- json` under `search: formats:` in its settings.yml and restart it. ' +
        'If it is already there, the limiter blocks this server: set `server: limiter: false` ' +
        'or allow this machine.',
    });
  }
  if (status === 429 || /too many requests/i.test(body.slice(0, 2000))) {
    return new AppError('rateLimited', 'The SearXNG limiter blocked this server (429).', {
      hint: 'Set `server: limiter: false` in settings.yml, or allow this machine in limiter.toml.',
    });
  }
  if (status === 404) {
    return new AppError('unavailable', 'SearXNG was not found at this URL (404).', {
      hint: 'Set web.search.searxngUrl to its start page, e.g. http://127.0.0.1:8888',
    });
  }
  return undefined;
}
