// Sources with documented interfaces that need no key: Wikipedia, Openverse and Wikimedia Commons
// for pictures, GDELT for news, and the operator's own feeds. None of them searches the whole
// web.
import { parseFeed } from 'htmlparser2';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { rowsFrom } from './window.ts';
import { Answer, askJson, askText, isoDate, isWebUrl, plainText } from './ask.ts';
import { rowsOf, type Asker } from './keyed.ts';
import type { Engine, Found, FoundRow, Freshness, SearchParts, SearchRequest } from './types.ts';

export function keylessEngines({ settings, clock }: SearchParts, asker: Asker): Engine[] {
  return [
    wikipediaEngine(settings.wikipedia.url, asker),
    openverseEngine(settings.openverse.url, asker),
    commonsEngine(settings.commons.url, asker),
    gdeltEngine(settings.gdelt.url, asker),
    ...(settings.feeds.length > 0 ? [feedsEngine(settings.feeds, asker, clock)] : []),
  ];
}

function apiUrl(base: string, params: Record<string, string | number>): URL {
  const url = new URL('/w/api.php', base);
  for (const [name, value] of Object.entries({ ...params, format: 'json', formatversion: 2 })) {
    url.searchParams.set(name, String(value));
  }
  return url;
}

/** en.wikipedia.org in the language asked for; an own wiki stays what it is. */
function inLanguage(base: string, language: string | undefined): string {
  if (language === undefined || !/^[a-z]{2,3}$/.test(language)) return base;
  return base.replace(/^(https?:\/\/)[a-z-]+(?=\.wikipedia\.org)/, `$1${language}`);
}

function wikipediaEngine(base: string, asker: Asker): Engine {
  return {
    name: 'wikipedia',
    general: false,
    kinds: ['web'],
    takes: ['language'],
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
      const answer = await askJson(url, asker('Wikipedia', signal));
      const suggestion = answer.text('query', 'searchinfo', 'suggestion');
      const rows = rowsOf(answer.list('query', 'search'), (row) => ({
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
      const answer = await askJson(url, asker('Wikipedia', signal));
      return (answer.list()[1]?.list() ?? []).flatMap((entry) => entry.text() ?? []);
    },
  };
}

function articleUrl(home: string, title: string | undefined): string | undefined {
  if (title === undefined) return undefined;
  return new URL(`/wiki/${encodeURIComponent(title.replace(/ /g, '_'))}`, home).href;
}

/** Without a key of its own. */
const openverseCountMax = 20;
const openversePagesMax = 5;

function openverseEngine(base: string, asker: Asker): Engine {
  return {
    name: 'openverse',
    general: false,
    kinds: ['images'],
    takes: ['safesearch'],
    search: (request, signal) => {
      const size =
        (request.offset ?? 0) > 0 ? openverseCountMax : Math.min(request.count, openverseCountMax);
      const ask = async (page: number) => {
        const url = new URL('/v1/images/', base);
        url.searchParams.set('q', request.query.slice(0, 200));
        url.searchParams.set('page_size', String(size));
        url.searchParams.set('page', String(1 + page));
        if (request.safesearch === 0) url.searchParams.set('mature', 'true');
        const answer = await askJson(url, asker('Openverse', signal));
        return rowsOf(answer.list('results'), openverseRow);
      };
      return rowsFrom(request, { size, pagesMax: openversePagesMax, ask });
    },
  };
}

const openverseRow = (row: Answer): Partial<FoundRow> => ({
  url: row.text('foreign_landing_url'),
  snippet: plainText(row.text('attribution') ?? row.text('creator')),
  source: row.text('source'),
  imageUrl: row.text('url'),
  thumbnailUrl: row.text('thumbnail'),
  width: row.number('width'),
  height: row.number('height'),
  license: row.text('license'),
});

function commonsEngine(base: string, asker: Asker): Engine {
  return {
    name: 'commons',
    general: false,
    kinds: ['images'],
    takes: [],
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
      const answer = await askJson(url, asker('Wikimedia Commons', signal));
      const pages = answer.list('query', 'pages');
      const ordered = pages.toSorted((a, b) => (a.number('index') ?? 0) - (b.number('index') ?? 0));
      return { rows: rowsOf(ordered, commonsRow) };
    },
  };
}

function commonsRow(page: Answer): Partial<FoundRow> {
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

function gdeltEngine(base: string, asker: Asker): Engine {
  return {
    name: 'gdelt',
    general: false,
    kinds: ['news'],
    takes: ['freshness'],
    async search(request, signal) {
      const url = gdeltUrl(base, request);
      const text = await askText(url, asker('GDELT', signal));
      const answer = gdeltAnswer(text);
      const rows = rowsOf(answer.list('articles'), (row) => ({
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

/** It says what it dislikes in plain words and with status 200. */
function gdeltAnswer(text: string): Answer {
  const parsed = parseJson(text);
  if (parsed) return parsed;
  throw new AppError('unavailable', `GDELT did not search: ${plainText(text).slice(0, 200)}`, {
    hint: /limit|too many|second/i.test(text)
      ? 'It takes one request every few seconds; try again shortly.'
      : 'Its queries need words of at least three letters; try other words.',
  });
}

function parseJson(text: string): Answer | undefined {
  try {
    return new Answer(JSON.parse(text));
  } catch {
    return undefined;
  }
}

const feedsAtOnce = 10;

/** News from the operator's feeds: entries that hold every word of the query. */
function feedsEngine(feeds: readonly string[], asker: Asker, clock: Clock): Engine {
  return {
    name: 'feeds',
    general: false,
    kinds: ['news'],
    takes: ['freshness'],
    async search({ query, count, offset = 0, freshness }, signal) {
      const found: Found = { rows: [], warnings: [] };
      const words = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
      for (let i = 0; i < feeds.length; i += feedsAtOnce) {
        const some = feeds.slice(i, i + feedsAtOnce);
        await Promise.all(some.map((feed) => readFeed(feed, words, found, asker, signal)));
      }
      signal.throwIfAborted();
      refuseIfNone(found, feeds.length);
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

/** A feed that fails is a warning; when all do, nothing was searched. */
function refuseIfNone({ warnings = [] }: Found, feeds: number): void {
  if (warnings.length < feeds) return;
  throw new AppError('unavailable', `No feed could be read: ${warnings.slice(0, 5).join('; ')}`, {
    hint: 'Check web.search.feeds in config.json.',
  });
}

async function readFeed(
  address: string,
  words: readonly string[],
  found: Found,
  asker: Asker,
  signal: AbortSignal,
): Promise<void> {
  try {
    const feed = parseFeed(await askText(new URL(address), asker('The feed', signal)), {
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
