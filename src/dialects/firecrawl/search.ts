// Search over all sources, restricted to domains and categories. Requested formats add the pages' contents.
import { webSearch } from '../../kinds/web/contracts.ts';
import { numberOf, textOf } from '../../runtime/json.ts';
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Api, Asked } from './route.ts';
import { unusedOf } from './options.ts';
import { scraped } from './scrape.ts';
import { finished, limitOf } from './wait.ts';
import { scopeOf, type Scope } from './scope.ts';
import { given, noteOf, type Fields } from './translate.ts';

const maxCount = 100;
const searchMs = 60_000;
const searched = ['web', 'news', 'images'];

export const search: Api = async (asked) => {
  const { input } = asked;
  const sources = ((input.sources ?? ['web']) as (string | Fields)[]).map((one) =>
    typeof one === 'string' ? one : String(one.type),
  );
  const scope = scopeOf(input);
  const data: Fields = {};
  const spent: Found[] = [];
  for (const type of sources.filter((one) => searched.includes(one))) {
    const found = await foundIn(asked, type, scope);
    spent.push(found);
    data[type] = found.rows.map((row) => resultOf(row, scope));
  }
  // Scrape options without formats request nothing.
  const formats = (input.scrapeOptions as Fields | undefined)?.formats;
  const reads = Array.isArray(formats) && formats.length > 0;
  for (const type of reads ? ['web', 'news'] : [])
    if (data[type]) data[type] = await withPages(asked, data[type] as Fields[]);
  const missing = sources.filter((one) => !searched.includes(one));
  const unsupported = input.tbs && !freshnessOf(input.tbs) ? [`tbs ${textOf(input.tbs)}`] : [];
  const unused = [...unusedOf(input, 'search'), ...unsupported];
  const unknown = [...missing, ...(scope?.unknown ?? [])];
  const notice = spent.find((one) => one.notice !== undefined)?.notice;
  return {
    success: true,
    data,
    creditsUsed: spent.reduce((sum, { credits }) => sum + credits, 0),
    ...given({ id: spent[0]?.id }),
    ...noteOf({ unknown, unused }, notice),
  };
};

interface Found {
  id: unknown;
  rows: Fields[];
  credits: number;
  notice: unknown;
}

/** An engine without `site:` support finds nothing with it. Then search without it and filter the results. */
async function foundIn(asked: Asked, type: string, scope: Scope | undefined): Promise<Found> {
  const { input } = asked;
  const limit = Math.min(numberOf(input.limit ?? 10), maxCount);
  const query = [input.query, scope?.words].filter(Boolean).join(' ');
  const first = await asking(asked, { query, type, count: limit });
  if (!scope) return first;
  const rows = first.rows.filter((row) => scope.fits(row));
  if (rows.length > 0) return { ...first, rows };
  const again = await asking(asked, { query: input.query, type, count: maxCount });
  const credits = first.credits + again.credits;
  return { ...again, credits, rows: again.rows.filter((row) => scope.fits(row)).slice(0, limit) };
}

async function asking(asked: Asked, requested: Fields): Promise<Found> {
  const { country, language, tbs, safe } = asked.input;
  const how = given({
    country,
    language,
    freshness: freshnessOf(tbs),
    safesearch: safe === true ? 2 : null,
  });
  const limitMs = limitOf(asked.input, searchMs);
  const out = await finished(asked, webSearch, { ...given(requested), ...how }, limitMs);
  const { id, rows = [], creditsUsed = 0, notice } = out;
  return { id, rows: rows as Fields[], credits: Number(creditsUsed), notice };
}

function resultOf(row: Fields, scope: Scope | undefined): Fields {
  const { title, url, snippet, position, published, imageUrl, width, height } = row;
  return given({
    title,
    url,
    description: snippet,
    snippet,
    position,
    category: scope?.categoryOf(row),
    date: published,
    imageUrl,
    imageWidth: width,
    imageHeight: height,
  });
}

const spans: Record<string, string> = byName({
  h: 'day',
  d: 'day',
  w: 'week',
  m: 'month',
  y: 'year',
});

/** Parses `qdr:w` (the last week). */
function freshnessOf(tbs: unknown): string | undefined {
  return spans[/qdr:([hdwmy])/.exec(typeof tbs === 'string' ? tbs : '')?.[1] ?? ''];
}

async function withPages(asked: Asked, rows: Fields[]): Promise<Fields[]> {
  const options = asked.input.scrapeOptions as Fields;
  return Promise.all(
    rows.map(async (row) => {
      try {
        return { ...row, ...(await scraped(asked, { ...options, url: row.url })) };
      } catch (error) {
        const message = error instanceof AppError ? error.message : 'It could not be read.';
        return { ...row, metadata: { sourceURL: row.url, error: message } };
      }
    }),
  );
}
