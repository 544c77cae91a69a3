// Between Firecrawl's options and documents and ours. Pure.
import { byName } from '../../runtime/by-name.ts';
export type Fields = Record<string, unknown>;

const formats: Record<string, string> = byName({
  markdown: 'markdown',
  html: 'html',
  rawHtml: 'raw',
  links: 'links',
  images: 'images',
});

export interface Wish {
  formats: string[];
  json?: { schema?: unknown; prompt?: unknown };
  screenshot?: {
    fullPage: boolean;
    quality?: unknown;
    viewport?: { width?: unknown; height?: unknown };
  };
  tracking?: { tag?: string };
  /** Formats that this server has not got: said in the answer, not silently left out. */
  unknown: string[];
}

export function wishOf(options: Fields): Wish {
  const wish: Wish = { formats: [], unknown: [] };
  for (const one of (options.formats as (string | Fields)[] | undefined) ?? ['markdown']) {
    const type = typeof one === 'string' ? one : String(one.type);
    const more = typeof one === 'string' ? {} : one;
    if (formats[type]) wish.formats.push(formats[type]);
    else if (type === 'json') wish.json = given({ schema: more.schema, prompt: more.prompt });
    else if (type === 'screenshot' || type === 'screenshot@fullPage')
      wish.screenshot = {
        fullPage: more.fullPage === true || type !== 'screenshot',
        ...given({ quality: more.quality, viewport: more.viewport }),
      };
    else if (type === 'changeTracking') {
      wish.tracking = given({ tag: more.tag });
      if ([more.modes].flat().includes('json')) wish.unknown.push('changeTracking of mode json');
    } else wish.unknown.push(type);
  }
  return wish;
}

/** What was asked for and is not there is said. */
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
    // As in theirs; those that are data instead of addresses never are.
    includeImages: true,
    includeSelectors: options.includeTags,
    excludeSelectors: options.excludeTags,
    headers: options.headers,
  });
}

export function timeoutOf({ timeout }: Fields, maxMs: number): number | undefined {
  return typeof timeout === 'number' ? Math.min(Math.max(timeout, 1000), maxMs) : undefined;
}

/** One of our pages as Firecrawl's document. */
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
    // Of a page that was read: what could not be done with it.
    warning: page.fate === 'errored' ? undefined : page.detail,
    metadata: given({
      ...metadata,
      ...socialOf(metadata),
      social: undefined,
      title: page.title ?? metadata.title,
      sourceURL: page.from ?? page.url,
      url: page.url,
      statusCode: page.status,
      error: page.fate === 'errored' ? (page.detail ?? page.reason) : undefined,
      contentType: page.type,
      numPages: page.pages,
      proxyUsed: 'basic',
      cacheState: page.cached === true ? 'hit' : 'miss',
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
  // The one that theirs reads as a list.
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
