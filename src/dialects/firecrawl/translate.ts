// Translates between Firecrawl's options and documents and ours. Pure.
import { byName } from '../../runtime/by-name.ts';
export type Fields = Record<string, unknown>;

const formats: Record<string, string> = byName({
  markdown: 'markdown',
  html: 'html',
  rawHtml: 'raw',
  links: 'links',
  images: 'images',
});

export interface RequestedFormats {
  formats: string[];
  json?: { schema?: unknown; prompt?: unknown };
  screenshot?: {
    fullPage: boolean;
    quality?: unknown;
    viewport?: { width?: unknown; height?: unknown };
  };
  tracking?: { tag?: string };
  /** Unsupported formats. The response names them. */
  unknown: string[];
}

export function parseFormats(options: Fields): RequestedFormats {
  const requested: RequestedFormats = { formats: [], unknown: [] };
  for (const one of (options.formats as (string | Fields)[] | undefined) ?? ['markdown']) {
    const type = typeof one === 'string' ? one : String(one.type);
    const more = typeof one === 'string' ? {} : one;
    if (formats[type]) requested.formats.push(formats[type]);
    else if (type === 'json') requested.json = given({ schema: more.schema, prompt: more.prompt });
    else if (type === 'screenshot' || type === 'screenshot@fullPage')
      requested.screenshot = {
        fullPage: more.fullPage === true || type !== 'screenshot',
        ...given({ quality: more.quality, viewport: more.viewport }),
      };
    else if (type === 'changeTracking') {
      requested.tracking = given({ tag: more.tag });
      if ([more.modes].flat().includes('json'))
        requested.unknown.push('changeTracking of mode json');
    } else requested.unknown.push(type);
  }
  return requested;
}

/** The SDKs send zod 4 schemas without their fields, because their zod-to-json-schema supports only zod 3. */
export function emptySchemaNote(schema: unknown): string | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined;
  // The JSON of a zod schema that the SDK did not convert, as 3.x does when it is loaded with require().
  if ('_def' in schema || '~standard' in schema)
    return 'The schema arrived as a zod object. Pass a JSON Schema, such as z.toJSONSchema(schema), to the SDK.';
  if (Object.keys(schema).some((name) => name !== '$schema')) return undefined;
  return 'The schema arrived without fields. With zod 4, pass z.toJSONSchema(schema) to the SDK.';
}

/** A warning about unsupported formats and options. */
export function noteOf(
  { unknown = [], unused = [] }: { unknown?: readonly string[]; unused?: readonly string[] },
  first?: unknown,
): Fields {
  const missing = unknown.length > 0 ? `Not available here: ${unknown.join(', ')}.` : undefined;
  const left = unused.length > 0 ? `Not used here: ${unused.join(', ')}.` : undefined;
  const warning = [first, missing, left].filter(Boolean).join(' ');
  return warning ? { warning } : {};
}

export function readingOf(options: Fields): Fields {
  return given({
    onlyMainContent: options.onlyMainContent,
    // As in Firecrawl. Data URIs are never included.
    includeImages: true,
    includeSelectors: options.includeTags,
    excludeSelectors: options.excludeTags,
    headers: options.headers,
  });
}

export function timeoutOf({ timeout }: Fields, maxMs: number): number | undefined {
  return typeof timeout === 'number' ? Math.min(Math.max(timeout, 1000), maxMs) : undefined;
}

/** Converts one of our pages to Firecrawl's document. */
export function documentOf(page: Fields): Fields {
  const metadata = (page.metadata ?? {}) as Fields;
  const links = page.links as (string | { url: string })[] | undefined;
  const images = page.images as (string | { url: string })[] | undefined;
  return given({
    markdown: page.markdown,
    html: page.html,
    rawHtml: page.raw,
    links: links?.map((link) => (typeof link === 'string' ? link : link.url)),
    images: images?.map((image) => (typeof image === 'string' ? image : image.url)),
    screenshot: page.screenshot,
    json: (page.data as Fields | undefined)?.data,
    // What could not be done with a page that was read.
    warning: page.outcome === 'errored' ? undefined : page.detail,
    metadata: given({
      ...metadata,
      ...socialOf(metadata),
      social: undefined,
      title: page.title ?? metadata.title,
      sourceURL: page.from ?? page.url,
      url: page.url,
      statusCode: page.status,
      error: page.outcome === 'errored' ? (page.detail ?? page.reason) : undefined,
      contentType: page.type,
      numPages: page.pages,
      proxyUsed: 'basic',
      cachedAt: page.cached === true ? page.fetchedAt : undefined,
      creditsUsed: page.creditsUsed ?? 1,
    }),
  });
}

/** `og:site_name` is ogSiteName, `article:published_time` publishedTime. */
function socialOf({ social = {}, modified, published }: Fields): Fields {
  const tags = Object.entries(social as Record<string, string>).flatMap(([name, value]) => {
    const [group, ...words] = name.split(/[:_]/);
    const rest = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
    return group === 'og' ? [[`og${rest}`, value]] : group === 'article' && /^(?:Tag|Section)$/.test(rest) ? [[`article${rest}`, value]] : []; // prettier-ignore
  });
  const all = Object.fromEntries(tags) as Fields;
  // Firecrawl returns this one as a list.
  const ogLocaleAlternate =
    all.ogLocaleAlternate === undefined ? undefined : [all.ogLocaleAlternate];
  return { ...all, ogLocaleAlternate, modifiedTime: modified, publishedTime: published };
}

export function given(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}

export const statusOf = (status: string): string =>
  status === 'completed' || status === 'cancelled'
    ? status
    : ['failed', 'timed_out'].includes(status)
      ? 'failed'
      : 'scraping';
