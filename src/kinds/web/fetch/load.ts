// Loads one page that a caller requested: robots.txt, request rate, redirects, reading, and the browser if needed.
import { createHash } from 'node:crypto';
import { AppError } from '../../../errors.ts';
import type { PageAction } from '../browser/page-action.ts';
import { decodeBytes } from '../read/charset.ts';
import { detectKind } from '../read/documents.ts';
import { parseUrl } from '../url.ts';
import type { Page, PageFormat, PageOptions } from '../read/types.ts';
import type { WebDeps } from '../deps.ts';
import { CookieJar } from './cookies.ts';
import { failureOf, retryAfterMs, type Fetched } from './fetcher.ts';
import { hostPace } from './pacer.ts';

interface LoadRequest {
  url: string;
  formats: readonly PageFormat[];
  /** Formats for documents that are not HTML (PDF, JSON, text), if different. */
  otherFormats?: readonly PageFormat[];
  jobId: string;
  signal: AbortSignal;
  render?: 'never' | 'auto' | 'always';
  robots?: 'obey' | 'ignore';
  headers?: Record<string, string>;
  /** Browser actions before the page is read. */
  actions?: readonly PageAction[];
  timeoutMs?: number;
  /** `base64`: a PDF is not parsed; every text format contains its bytes. */
  pdf?: 'text' | 'base64';
  reading?: Partial<PageOptions>;
}

export interface Loaded {
  url: string;
  status: number;
  /** Media type of the response. */
  type?: string;
  page: Page;
  /** The body as text, for extraction. */
  html: string;
  bytes: number;
  rendered: boolean;
  browserMs: number;
}

const timeoutMsDefault = 30_000;

export async function loadPage(request: LoadRequest, services: WebDeps): Promise<Loaded> {
  const render = request.actions ? 'always' : (request.render ?? 'auto');
  const { url, response } = await fetchFollowing(request, services);
  const { status, headers, body } = response;
  if (status < 200 || status >= 300) throw statusError(url, response, services.clock.now());
  const bytes = body.byteLength;
  const contentType = headers['content-type'];
  const html = isText(contentType) ? decodeBytes(body, contentType).text : '';
  const options = {
    ...request.reading,
    url,
    formats:
      (detectKind(body, contentType) === 'html' ? undefined : request.otherFormats) ??
      request.formats,
    ...(contentType === undefined ? {} : { contentType }),
  };
  const isBytes = request.pdf === 'base64' && detectKind(body, contentType) === 'pdf';
  const page = isBytes ? bytesPage(body, url) : await services.reader.read(body, options);
  const needsBrowser = render === 'always' || (render === 'auto' && page.needsBrowser);
  const type = contentType?.split(';')[0]?.trim().toLowerCase();
  const base = { url, status, bytes, ...(type ? { type } : {}) };
  if (!needsBrowser || page.kind !== 'html')
    return { ...base, page, html, rendered: false, browserMs: 0 };
  try {
    const { timeoutMs = timeoutMsDefault, jobId, signal, headers: sent, actions } = request;
    const isAsked = new URL(url).host === parseUrl(request.url).host;
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
    // With `auto`, a browser that is missing or fails is not an error: the result is the page without scripts, and
    // `needsBrowser` reports it.
    if (render === 'auto' && !request.signal?.aborted && isBrowserFault(error)) {
      return { ...base, page, html, rendered: false, browserMs: 0 };
    }
    throw error;
  }
}

/** A page whose text formats contain the bytes of a PDF. */
function bytesPage(body: Uint8Array, url: string): Page {
  const bytes = Buffer.from(body).toString('base64');
  const hash = createHash('sha256').update(body).digest('hex');
  return {
    url,
    kind: 'pdf',
    charset: 'binary',
    markdown: bytes,
    text: bytes,
    html: bytes,
    metadata: { social: {} },
    robots: { noindex: false, nofollow: false },
    wordCount: 0,
    textHash: hash,
    pageHash: hash,
    needsBrowser: false,
  };
}

const browserFaults = ['noBrowser', 'browserFailed', 'unavailable', 'timeout'];

const isBrowserFault = (error: unknown): boolean =>
  error instanceof AppError && browserFaults.includes(error.code);

async function fetchFollowing(
  request: LoadRequest,
  services: WebDeps,
): Promise<{ url: string; response: Fetched }> {
  const { settings } = services;
  let url = parseUrl(request.url);
  url.hash = '';
  const first = url.host;
  // Some sites require a cookie that a redirect sets. Each host gets back only its own cookies.
  const cookies = new CookieJar();
  const hasOwn = Object.keys(request.headers ?? {}).some((name) => /^cookie$/i.test(name));
  for (let hop = 0; hop <= settings.maxRedirects; hop++) {
    await rejectDisallowed(url, request, services);
    const response = await fetchOne(url, { first, cookie: cookies.of(url) }, request, services);
    if (!hasOwn) cookies.take(url, response.headers['set-cookie']);
    const next =
      response.status >= 300 && response.status < 400
        ? URL.parse(response.headers.location ?? '', url.href)
        : null;
    if (!next) return { url: url.href, response };
    url = parseUrl(next.href);
  }
  throw new AppError(
    'pageFailed',
    `${request.url} redirects more than ${settings.maxRedirects} times (web.maxRedirects).`,
  );
}

async function fetchOne(
  url: URL,
  { first, cookie }: { first: string; cookie: string | undefined },
  request: LoadRequest,
  services: WebDeps,
): Promise<Fetched> {
  const { settings, pacer, fetch } = services;
  const fetchRequest = {
    url: url.href,
    headers: {
      'user-agent': settings.userAgent,
      accept: 'text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.5',
      ...(cookie === undefined ? {} : { cookie }),
      ...(url.host === first ? request.headers : {}),
    },
    timeoutMs: request.timeoutMs ?? timeoutMsDefault,
    maxBytes: settings.maxBodyBytes,
    signal: request.signal,
  };
  try {
    return await pacer.turn(
      url.host,
      () => hostPace(url.host, settings),
      request.signal,
      () => fetch(fetchRequest),
    );
  } catch (error) {
    request.signal.throwIfAborted();
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

async function rejectDisallowed(
  url: URL,
  request: LoadRequest,
  { robots }: WebDeps,
): Promise<void> {
  if (request.robots === 'ignore') return;
  const rules = await robots.rules(url.origin, request.signal);
  // An unreachable robots.txt does not block a page that a caller requested explicitly.
  if (rules.unreachable !== undefined || rules.allows(url.href)) return;
  throw new AppError(
    'robotsDisallowed',
    `robots.txt of ${url.host} does not allow ${url.pathname}.`,
    {
      hint: 'Read another page, or set robots to "ignore" if you own the site or have permission.',
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
      : `Try again after ${Math.ceil(waitMs / 1000)} s (Retry-After).`;
  return new AppError('pageFailed', `${url} responded with status ${status}.`, {
    hint: status === 404 ? 'Check the URL. map_site lists the URLs of a site.' : later,
    data: { url, status, ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }) },
  });
}

const isText = (type = 'text/html'): boolean => /text|html|xml|json/i.test(type);
