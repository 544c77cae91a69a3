// Translates request bodies of API v1 to v2. Options that v2 does not have are kept, so that the response names them. Pure.
import { AppError } from '../../errors.ts';
import { badRequest } from './body.ts';
import { textOf } from '../../runtime/json.ts';
import { given, type Fields } from './translate.ts';

type Formats = (string | Fields)[];

/** Options of a scrape or batch, and `scrapeOptions` of other calls. */
export function readingFromV1(options: Fields): Fields {
  const { formats, jsonOptions, extract, changeTrackingOptions, parsePDF, geolocation, ...rest } =
    options;
  checkJson((formats ?? []) as Formats, { json: jsonOptions, extract });
  const asked = (jsonOptions ?? extract ?? {}) as Fields;
  const translated = (formats as Formats | undefined | null)?.map((one) => {
    if (one === 'json' || one === 'extract') return { type: 'json', ...asked };
    return one === 'changeTracking'
      ? { type: one, ...(changeTrackingOptions as Fields | undefined) }
      : one;
  });
  return given({
    ...rest,
    formats: translated,
    location: rest.location ?? geolocation,
    parsers: parsePDF === false ? [] : undefined,
    // v1 reads every page unless the caller sets a maximum age.
    maxAge: rest.maxAge ?? 0,
  });
}

function checkJson(formats: Formats, options: Record<string, unknown>): void {
  const unsupported = Object.keys(options).find(
    (name) => formats.includes(name) !== (options[name] !== undefined && options[name] !== null),
  );
  if (unsupported === undefined) return;
  const field = unsupported === 'json' ? 'jsonOptions' : 'extract';
  throw new AppError('invalidInput', `The format ${unsupported} and ${field} belong together.`, {
    hint: `Pass both, such as {"formats": ["${unsupported}"], "${field}": {"schema": {…}}}, or neither.`,
  });
}

export function crawlFromV1(input: Fields): Fields {
  const { maxDepth, ignoreSitemap, allowBackwardLinks, scrapeOptions, ...rest } = input;
  return given({
    ...rest,
    crawlEntireDomain: rest.crawlEntireDomain ?? allowBackwardLinks,
    sitemap: ignoreSitemap === true ? 'skip' : undefined,
    excludePaths: [...((rest.excludePaths ?? []) as string[]), ...deeperThan(maxDepth, input)],
    scrapeOptions: readingFromV1((scrapeOptions ?? {}) as Fields),
  });
}

/** Upper bound of a repetition in a pattern. Real paths have fewer segments. */
const maxSegments = 500;

/** `maxDepth` of version 1 is the number of segments in the path, wherever the crawl starts. */
function deeperThan(maxDepth: unknown, { url, regexOnFullURL }: Fields): string[] {
  if (typeof maxDepth !== 'number' || maxDepth > maxSegments) return [];
  const own = URL.parse(textOf(url))?.pathname.split('/').filter(Boolean).length ?? 0;
  if (!Number.isInteger(maxDepth) || own > maxDepth) {
    const message = 'URL depth exceeds the specified maxDepth';
    throw badRequest(
      [{ code: 'custom', message, path: ['url'] }],
      `Its path has ${own} segments: give at least that as maxDepth, or maxDiscoveryDepth to count links.`,
    );
  }
  const host = regexOnFullURL === true ? '[a-z]+://[^/?#]+' : '';
  return [`^${host}(?:/+[^/?#]+){${maxDepth + 1}}`];
}

export function mapFromV1({ ignoreSitemap, sitemapOnly, ...rest }: Fields): Fields {
  const sitemap = sitemapOnly === true ? 'only' : ignoreSitemap === true ? 'skip' : undefined;
  return given({ ...rest, sitemap });
}

/** Defaults that its SDKs send. */
const languageDefault = 'en';
const countryDefault = 'us';
const limitDefault = 5;

export function searchFromV1({ lang, country, scrapeOptions, ...rest }: Fields): Fields {
  return given({
    ...rest,
    limit: rest.limit ?? limitDefault,
    language: lang === languageDefault ? undefined : lang,
    country: country === countryDefault ? undefined : country,
    scrapeOptions: scrapeOptions ? readingFromV1(scrapeOptions as Fields) : undefined,
  });
}

/** v1 rejects invalid URLs by default; v2 ignores them. */
export const strictOnUrls = (input: Fields): Fields => ({
  ...input,
  ignoreInvalidURLs: input.ignoreInvalidURLs ?? false,
});
