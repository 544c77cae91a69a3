// SearXNG, the user's own meta engine, with a diagnosis of what usually is wrong with it: JSON is
// not among its formats (403), its limiter took us for a robot, or its own engines are blocked.
import { AppError } from '../../../errors.ts';
import { askJson, isoDate, plainText, type Answer } from './ask.ts';
import { rowsOf, type Asker } from './keyed.ts';
import { rowsFrom } from './window.ts';
import type { Engine, Found, FoundRow, SearchKind, SearchRequest } from './types.ts';

const categories: Record<SearchKind, string> = { web: 'general', news: 'news', images: 'images' };
/** One has ten rows or more. */
const pagesMax = 10;

export function searxngEngine(base: string, asker: Asker): Engine {
  const options = (signal: AbortSignal) => ({ ...asker('SearXNG', signal), diagnose });
  return {
    name: 'searxng',
    general: true,
    kinds: ['web', 'news', 'images'],
    takes: ['language', 'country', 'safesearch', 'freshness'],
    async search(request, signal) {
      const extras: Found = { rows: [] };
      // It has pages of its own size, and no way to say how many rows are wanted.
      const { rows, warnings = [] } = await rowsFrom(request, {
        pagesMax,
        ask: async (page) => {
          const answer = await askJson(searchUrl(base, request, page + 1), options(signal));
          const found = rowsOf(answer.list('results'), searxngRow);
          if (page === 0) Object.assign(extras, extrasOf(answer));
          if (page === 0 && found.length === 0) refuseSilence(answer);
          return found;
        },
      });
      return { ...extras, rows, warnings: [...(extras.warnings ?? []), ...warnings] };
    },
    async suggest(query, signal) {
      const url = new URL('autocompleter', slashed(base));
      url.searchParams.set('q', query);
      const answer = await askJson(url, options(signal));
      // ["query", ["one", "two"]] for browsers, ["one", "two"] for scripts.
      const list = answer.list();
      const words = Array.isArray(list[1]?.value) ? list[1].list() : list;
      return words.flatMap((entry) => entry.text() ?? []);
    },
  };
}

function slashed(base: string): string {
  return base.endsWith('/') ? base : `${base}/`;
}

function searchUrl(base: string, request: SearchRequest, page: number): URL {
  const url = new URL('search', slashed(base));
  const { searchParams: params } = url;
  params.set('q', request.query);
  params.set('format', 'json');
  params.set('categories', categories[request.kind]);
  if (page > 1) params.set('pageno', String(page));
  const { language, country } = request;
  // Its places are those of a language: de-CH.
  if (language) params.set('language', country ? `${language}-${country.toUpperCase()}` : language);
  if (request.safesearch !== undefined) params.set('safesearch', String(request.safesearch));
  if (request.freshness) params.set('time_range', request.freshness);
  return url;
}

function searxngRow(row: Answer): Partial<FoundRow> {
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

function extrasOf(answer: Answer): Omit<Found, 'rows'> {
  const box = answer.list('infoboxes')[0];
  const title = box?.text('infobox');
  const url = box?.list('urls')[0]?.text('url');
  const content = plainText(box?.text('content'));
  return {
    suggestions: answer.list('suggestions').flatMap((entry) => entry.text() ?? []),
    ...(title ? { infobox: { title, content, ...(url ? { url } : {}) } } : {}),
    warnings: silent(answer),
  };
}

/** Its own engines that did not answer, with what it says of each. */
function silent(answer: Answer): string[] {
  return answer.list('unresponsive_engines').map((entry) => {
    const [name, reason] = entry.list();
    return `${name?.text() ?? 'an engine'}: ${reason?.text() ?? 'no answer'}`;
  });
}

/** Nothing found because nobody was there to find it is no answer. */
function refuseSilence(answer: Answer): void {
  const reasons = silent(answer);
  if (reasons.length === 0) return;
  const told = reasons.slice(0, 5).join('; ');
  throw new AppError('unavailable', `SearXNG found nothing, and its own engines failed: ${told}`, {
    hint: 'Try again later, or enable other engines in its settings.yml.',
  });
}

function diagnose(status: number, body: string): AppError | undefined {
  if (status === 403) {
    return new AppError('unavailable', 'SearXNG refuses to answer in JSON (403).', {
      hint:
        'In its settings.yml add `- json` under `search: formats:` and restart it. ' +
        'If it is there already, its limiter blocks us: set `server: limiter: false` ' +
        'or let this machine pass.',
    });
  }
  if (status === 429 || /too many requests/i.test(body.slice(0, 2000))) {
    return new AppError('rateLimited', 'The limiter of SearXNG took us for a robot (429).', {
      hint: 'Set `server: limiter: false` in settings.yml, or let us pass in limiter.toml.',
    });
  }
  if (status === 404) {
    return new AppError('unavailable', 'There is no SearXNG at this address (404).', {
      hint: 'web.search.searxngUrl is the address of its start page, e.g. http://127.0.0.1:8888',
    });
  }
  return undefined;
}
