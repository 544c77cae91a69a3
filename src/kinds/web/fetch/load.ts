// One page for a caller who named it: robots.txt, pace, redirects hop by hop, reading; the browser where it is needed.
import { AppError } from '../../../errors.ts';
import type { PageAction } from '../browser/actions.ts';
import { decodeBytes } from '../content/charset.ts';
import { kindOf } from '../content/documents.ts';
import { parseUrl } from '../crawl/url.ts';
import type { Page, PageFormat, PageOptions } from '../content/types.ts';
import type { Services } from '../services.ts';
import { CookieJar } from './cookies.ts';
import { failureOf, retryAfterMs, type Fetched } from './fetcher.ts';
import { hostManners } from './pacer.ts';

export interface LoadWish {
  url: string;
  formats: readonly PageFormat[];
  /** Of what is no HTML (PDF, JSON, text), if others. */
  otherFormats?: readonly PageFormat[];
  jobId: string;
  signal: AbortSignal;
  render?: 'never' | 'auto' | 'always';
  robots?: 'obey' | 'ignore';
  headers?: Record<string, string>;
  /** Done in the browser before the page is read. */
  actions?: readonly PageAction[];
  timeoutMs?: number;
  reading?: Partial<PageOptions>;
}

export interface Loaded {
  url: string;
  status: number;
  /** Media type it was sent as. */
  type?: string;
  page: Page;
  /** The body as text, for extraction. */
  html: string;
  bytes: number;
  rendered: boolean;
  browserMs: number;
}

const timeoutMsDefault = 30_000;

export async function loadPage(wish: LoadWish, services: Services): Promise<Loaded> {
  const render = wish.actions ? 'always' : (wish.render ?? 'auto');
  const { url, answer } = await fetchFollowing(wish, services);
  const { status, headers, body } = answer;
  if (status < 200 || status >= 300) throw statusError(url, answer, services.clock.now());
  const bytes = body.byteLength;
  const contentType = headers['content-type'];
  const html = isText(contentType) ? decodeBytes(body, contentType).text : '';
  const options = {
    ...wish.reading,
    url,
    formats: (kindOf(body, contentType) === 'html' ? undefined : wish.otherFormats) ?? wish.formats,
    ...(contentType === undefined ? {} : { contentType }),
  };
  const page = await services.reader.read(body, options);
  const needs = render === 'always' || (render === 'auto' && page.needsBrowser);
  const type = contentType?.split(';')[0]?.trim().toLowerCase();
  const base = { url, status, bytes, ...(type ? { type } : {}) };
  if (!needs || page.kind !== 'html') return { ...base, page, html, rendered: false, browserMs: 0 };
  try {
    const { timeoutMs = timeoutMsDefault, jobId, signal, headers: sent, actions } = wish;
    const isAsked = new URL(url).host === parseUrl(wish.url).host;
    const made = await services.browser.render(url, {
      timeoutMs,
      jobId,
      signal,
      screenshot: false,
      ...(actions ? { actions } : {}),
      ...(sent && isAsked ? { headers: sent } : {}),
    });
    const again = await services.reader.read(made.html, {
      ...options,
      url: made.url,
      contentType: 'text/html',
    });
    return {
      ...base,
      url: made.url,
      page: again,
      html: made.html,
      rendered: true,
      browserMs: made.ms,
    };
  } catch (error) {
    // With `auto` a browser that is missing, cannot start or dies is never worse than none: the page is what it is
    // without scripts, and needsBrowser says so.
    if (render === 'auto' && !wish.signal?.aborted && isBrowserFault(error)) {
      return { ...base, page, html, rendered: false, browserMs: 0 };
    }
    throw error;
  }
}

const browserFaults = ['noBrowser', 'browserFailed', 'unavailable', 'timeout'];

const isBrowserFault = (error: unknown): boolean =>
  error instanceof AppError && browserFaults.includes(error.code);

async function fetchFollowing(
  wish: LoadWish,
  services: Services,
): Promise<{ url: string; answer: Fetched }> {
  const { settings } = services;
  let url = parseUrl(wish.url);
  url.hash = '';
  const first = url.host;
  // Walls that let nobody in without a cookie: what a host sets on the way it gets back, and no other does.
  const cookies = new CookieJar();
  const hasOwn = Object.keys(wish.headers ?? {}).some((name) => /^cookie$/i.test(name));
  for (let hop = 0; hop <= settings.redirectsMax; hop++) {
    await refuseDisallowed(url, wish, services);
    const answer = await fetchOne(url, { first, cookie: cookies.of(url) }, wish, services);
    if (!hasOwn) cookies.take(url, answer.headers['set-cookie']);
    const next =
      answer.status >= 300 && answer.status < 400
        ? URL.parse(answer.headers.location ?? '', url.href)
        : null;
    if (!next) return { url: url.href, answer };
    url = parseUrl(next.href);
  }
  throw new AppError(
    'pageFailed',
    `${wish.url} redirects more than ${settings.redirectsMax} times.`,
  );
}

async function fetchOne(
  url: URL,
  { first, cookie }: { first: string; cookie: string | undefined },
  wish: LoadWish,
  services: Services,
): Promise<Fetched> {
  const { settings, pacer, fetch } = services;
  const request = {
    url: url.href,
    headers: {
      'user-agent': settings.userAgent,
      accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.5',
      ...(cookie === undefined ? {} : { cookie }),
      ...(url.host === first ? wish.headers : {}),
    },
    timeoutMs: wish.timeoutMs ?? timeoutMsDefault,
    bytesMax: settings.bodyBytesMax,
    signal: wish.signal,
  };
  try {
    return await pacer.turn(
      url.host,
      () => hostManners(url.host, settings),
      wish.signal,
      () => fetch(request),
    );
  } catch (error) {
    wish.signal.throwIfAborted();
    if (error instanceof AppError && ['egressRefused', 'invalidInput'].includes(error.code))
      throw error;
    const { reason, message, hint } = failureOf(error);
    const why = message.replace(`${url.href} could not be fetched: `, '');
    throw new AppError('pageFailed', `${url.href} could not be fetched (${reason}): ${why}`, {
      ...(hint === undefined ? {} : { hint }),
      data: { url: url.href, reason },
      cause: error,
    });
  }
}

async function refuseDisallowed(url: URL, wish: LoadWish, { robots }: Services): Promise<void> {
  if (wish.robots === 'ignore') return;
  const rules = await robots.rules(url.origin, wish.signal);
  // A page that a person asked for is not refused because robots.txt could not be had.
  if (rules.unreachable !== undefined || rules.allows(url.href)) return;
  throw new AppError(
    'robotsDisallowed',
    `robots.txt of ${url.host} does not allow ${url.pathname}.`,
    {
      hint: 'Read another page, or set robots to "ignore" if the site is yours or allows it.',
      data: { url: url.href },
    },
  );
}

function statusError(url: string, { status, headers }: Fetched, now: number): AppError {
  const waitMs = [429, 503].includes(status)
    ? retryAfterMs(headers['retry-after'], now)
    : undefined;
  const later =
    waitMs === undefined
      ? 'Try again later, or read another page.'
      : `It asks to be left alone for ${Math.ceil(waitMs / 1000)} s.`;
  return new AppError('pageFailed', `${url} answered ${status}.`, {
    hint: status === 404 ? 'Check the address; map_site lists the addresses of a site.' : later,
    data: { url, status, ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }) },
  });
}

const isText = (type = 'text/html'): boolean => /text|html|xml|json/i.test(type);
