// Visits one URL: checks robots.txt, fetches, reads the page and determines the outcome. Writes nothing.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { AppError } from '../../../../errors.ts';
import { decodeBytes } from '../../read/charset.ts';
import type { Page, PageFormat, PageOptions } from '../../read/types.ts';
import {
  failureOf,
  isRedirect,
  retryAfterMs,
  type Fetched,
  type Failure,
} from '../../fetch/fetcher.ts';
import type { Reader } from '../../read/reader.ts';
import { botName } from '../../fetch/robots.ts';
import { forbidsFollowing } from '../../fetch/robots-tag.ts';
import type { Waiting } from '../../store/rows.ts';
import type { Clock } from '../../../../runtime/clock.ts';
import type { Rendered, RenderOptions } from '../../browser/rendered.ts';
import { ShareExceeded, type ByteShare } from '../bytes.ts';
import type { EarlierCrawl, EarlierRow } from '../write/earlier-crawl.ts';
import { Requests, type RequestDeps } from './requests.ts';
import type { Result } from './result.ts';

export interface VisitDeps extends RequestDeps {
  clock: Clock;
  reader: Reader;
  earlier: EarlierCrawl | undefined;
  crawlDelay(host: string, delayMs: number): void;
  render(url: string, options: RenderOptions): Promise<Rendered>;
  extract(html: string, url: string): Promise<unknown>;
  credits: { page: number; rendered: number };
}

type VisitResult = Omit<Result, 'bytes'>;

/** Pages with fewer words are compared by their bytes, because two "Loading…" pages are not duplicates. */
const minWords = 20;

export class Visitor {
  private readonly deps: VisitDeps;
  private readonly formats: PageFormat[];
  private readonly storedFormats: ReadonlySet<string>;
  private readonly botName: string;
  private readonly requests: Requests;

  constructor(deps: VisitDeps) {
    this.deps = deps;
    this.storedFormats = new Set(deps.options.formats);
    this.botName = botName(deps.settings.userAgent);
    this.requests = new Requests(deps);
    const read = deps.options.formats.filter((f) => f !== 'raw' && f !== 'screenshot');
    this.formats = [...new Set<PageFormat>([...read, 'links'])];
  }

  /** Rejects when the crawl stops or the byte share was too small. Other failures become an outcome. */
  async visit(row: Waiting, share: ByteShare): Promise<Result> {
    try {
      return { ...(await this.load(row, share)), bytes: share.used };
    } catch (error) {
      if (this.deps.signal.aborted || error instanceof ShareExceeded) throw error;
      return { ...this.failed(row, failureOf(error)), bytes: share.used };
    }
  }

  private async load(row: Waiting, share: ByteShare): Promise<VisitResult> {
    const url = new URL(row.url);
    const refused = await this.askRobots(row, url);
    if (refused) return refused;
    const earlier = await this.deps.earlier?.row(row.key);
    const response = await this.requests.get(row, earlier?.row, share);
    if (response.status === 304 && earlier) return this.notModified(row, earlier);
    return this.classify(row, url, response);
  }

  private async askRobots(row: Waiting, url: URL): Promise<VisitResult | undefined> {
    const { robots, options, signal } = this.deps;
    if (options.robots === 'ignore') return undefined;
    const rules = await robots.rules(url.origin, signal);
    if (rules.crawlDelayMs !== undefined) this.deps.crawlDelay(url.host, rules.crawlDelayMs);
    const { unreachable } = rules;
    if (unreachable) {
      // The host is unreachable, so the page has the same error.
      if (['dns', 'connect', 'tls'].includes(unreachable.reason))
        return this.failed(row, unreachable);
      const result = this.failed(row, { ...unreachable, reason: 'robotsUnreachable', passing: true }); // prettier-ignore
      if (result.change.outcome === 'errored') result.change.outcome = 'disallowed';
      return result;
    }
    if (rules.allows(url.href)) return undefined;
    return {
      row,
      change: { outcome: 'disallowed', reason: 'robots' },
      host: 'unknown',
      credits: 0,
    };
  }

  private async notModified(row: Waiting, earlier: EarlierRow): Promise<VisitResult> {
    const { textHash, pageHash, title, type, etag, modified, bytes, status } = earlier.row;
    const { omitted, hiddenWords } = earlier.row;
    const seen = { textHash, pageHash, title, type, etag, modified, bytes, status };
    const change = { ...seen, omitted, hiddenWords };
    return {
      row,
      change: { ...withoutNull(change), outcome: 'unchanged', reason: 'notModified' },
      links: await this.deps.earlier!.links(earlier.row),
      unchangedSince: { crawl: earlier.crawl, seq: earlier.row.seq },
      host: 'works',
      credits: this.deps.credits.page,
    };
  }

  private async classify(row: Waiting, url: URL, response: Fetched): Promise<VisitResult> {
    const { status, headers, body } = response;
    const seen = { status, bytes: body.byteLength, ...typeOf(headers) };
    const base = { row, credits: 0 };
    if (isRedirect(response)) return this.redirected(row, url, response);
    if (status === 429 || status === 503) return this.rateLimited(row, response);
    if (status >= 500 || status === 408 || status === 425) {
      return this.failed(
        row,
        { reason: `http${status}`, message: `responded with ${status}`, passing: true },
        seen,
      );
    }
    if (status >= 400 || status < 200 || [204, 205, 304].includes(status)) {
      return {
        ...base,
        change: { outcome: 'errored', reason: `http${status}`, ...seen },
        host: 'works',
      };
    }
    return this.page(row, url, response);
  }

  private redirected(row: Waiting, url: URL, { status, headers }: Fetched): VisitResult {
    const base = { row, credits: 0, host: 'works' as const };
    const target = URL.parse(headers.location ?? '', url.href);
    const wrong = !target
      ? 'badRedirect'
      : this.requests.keyOf(target) === row.key
        ? 'redirectLoop'
        : row.hops >= this.deps.settings.maxRedirects
          ? 'tooManyRedirects'
          : undefined;
    if (wrong !== undefined || !target)
      return { ...base, change: { outcome: 'errored', reason: wrong!, status } };
    return { ...base, change: { outcome: 'redirected', status }, redirect: target.href };
  }

  /** Treats a meta refresh as a redirect, unless it points to the page itself. */
  private refreshed(
    row: Waiting,
    { refresh }: Page,
  ): Pick<Result, 'change' | 'redirect'> | undefined {
    if (refresh === undefined || this.requests.keyOf(new URL(refresh)) === row.key)
      return undefined;
    return row.hops >= this.deps.settings.maxRedirects
      ? { change: { outcome: 'errored', reason: 'tooManyRedirects' } }
      : { change: { outcome: 'redirected', reason: 'metaRefresh' }, redirect: refresh };
  }

  /** Handles 429 and 503: retries after the time that the site asks for. */
  private rateLimited(row: Waiting, { status, headers }: Fetched): VisitResult {
    const { settings, clock } = this.deps;
    const retryMs = retryAfterMs(headers['retry-after'], clock.now());
    const failure = { reason: `http${status}`, message: `responded with ${status}`, passing: true };
    if (retryMs === undefined) return this.failed(row, failure, { status });
    if (retryMs > settings.maxRetryAfterMs) {
      const detail = `The host asked to retry after ${Math.round(retryMs / 1000)} s, which exceeds maxRetryAfterMs.`;
      return {
        ...this.failed(row, { ...failure, message: detail, passing: false }, { status }),
        host: 'fails',
      };
    }
    const result = this.failed(row, failure, { status }, retryMs);
    return { ...result, host: { restMs: retryMs } };
  }

  private failed(row: Waiting, failure: Failure, seen: object = {}, waitMs?: number): VisitResult {
    const { settings, clock } = this.deps;
    const tries = row.tries + 1;
    const again = failure.passing && tries < settings.maxTries;
    const usual = settings.backoffMs * 2 ** row.tries * (0.75 + Math.random() / 2);
    const pause = Math.max(waitMs ?? 0, usual);
    const hint = failure.hint === undefined ? '' : ` ${failure.hint}`;
    return {
      row,
      change: {
        ...seen,
        outcome: again ? 'queued' : 'errored',
        reason: failure.reason,
        detail: `${failure.message}${hint}`.slice(0, 500),
        tries,
        ...(again ? { readyAt: Math.round(clock.now() + pause) } : {}),
      },
      host: failure.passing ? 'fails' : 'unknown',
      credits: 0,
    };
  }

  private async page(row: Waiting, url: URL, response: Fetched): Promise<VisitResult> {
    const { options, reader, credits } = this.deps;
    const { headers, body, status } = response;
    const bytes = body.byteLength;
    if (isBinary(body, headers['content-type'])) {
      const change = {
        outcome: 'skipped',
        reason: 'fileType',
        status,
        bytes,
        ...typeOf(headers),
      } as const;
      return { row, credits: 0, host: 'works', change };
    }
    const bodyHash = createHash('sha256').update(body).digest('hex');
    const type = headers['content-type'];
    const raw = this.storedFormats.has('raw') ? rawOf(body, type) : undefined;
    const html = options.schema ? decodeBytes(body, type).text : undefined;
    const always = options.render === 'always' || options.actions !== undefined;
    const first = always ? undefined : await reader.read(body, this.reading(url, type));
    const needsBrowser = always || (options.render === 'auto' && first!.needsBrowser);
    const isHtml = !first || first.kind === 'html';
    const wantsBrowser = (needsBrowser || this.storedFormats.has('screenshot')) && isHtml;
    const { rendered, missing } = wantsBrowser ? await this.render(url) : {};
    const page =
      rendered && (needsBrowser || !first)
        ? await reader.read(rendered.html, this.reading(url, 'text/html'))
        : first!;
    const base = {
      row,
      credits: credits.page + (rendered ? credits.rendered : 0),
      host: 'works' as const,
    };
    const seen = { status, bytes, ...typeOf(headers) };
    if (page.kind === 'binary')
      return { ...base, credits: 0, change: { outcome: 'skipped', reason: 'fileType', ...seen } };
    const moved = this.refreshed(row, page);
    if (moved) return { ...base, credits: 0, ...moved, change: { ...moved.change, ...seen } };
    const data =
      options.schema && page.kind === 'html'
        ? await this.deps.extract(rendered?.html ?? html!, url.href)
        : undefined;
    const detail = needsBrowser && !rendered ? missing : rendered?.failed;
    return {
      ...base,
      change: {
        ...seen,
        outcome: 'fetched',
        ...(page.title === undefined ? {} : { title: page.title.slice(0, 500) }),
        ...(headers.etag === undefined ? {} : { etag: headers.etag }),
        ...(headers['last-modified'] === undefined ? {} : { modified: headers['last-modified'] }),
        ...(detail === undefined ? {} : { detail: detail.slice(0, 500) }),
        ...(page.omitted === undefined ? {} : { omitted: JSON.stringify(page.omitted) }),
        ...(page.hiddenWords === undefined ? {} : { hiddenWords: page.hiddenWords }),
        textHash: page.wordCount >= minWords ? page.textHash : bodyHash,
        pageHash: page.wordCount >= minWords ? page.pageHash : bodyHash,
      },
      body: {
        ...this.storedBody(page),
        ...(raw ? { raw } : {}),
        ...(data === undefined ? {} : { data }),
        ...picture(rendered),
      },
      ...comparedText(page),
      ...linksOf(page, this.mayFollow(page, response)),
      ...(page.canonical === undefined ? {} : { canonical: page.canonical }),
      ...(rendered ? { browserMs: rendered.ms } : {}),
    };
  }

  private mayFollow(page: Page, { robotsTags }: Fetched): boolean {
    return !page.robots.nofollow && !forbidsFollowing(robotsTags, this.botName);
  }

  /** Renders a page. With `auto` and no usable browser, returns the reason as `missing` instead. */
  private async render(url: URL): Promise<{ rendered?: Rendered; missing?: string }> {
    const { options, signal, ownHeaders, render } = this.deps;
    const { actions } = options;
    const screenshot = this.storedFormats.has('screenshot');
    const headers = ownHeaders.for(url);
    try {
      const rendered = await render(url.href, {
        screenshot,
        signal,
        ...(actions ? { actions } : {}),
        ...(Object.keys(headers).length > 0 ? { headers } : {}),
      });
      return { rendered };
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'noBrowser') throw error;
      if (options.render !== 'auto' || actions || screenshot) throw error;
      return { missing: `The page needs a browser to show all its content. ${error.message}` };
    }
  }

  private reading(url: URL, contentType: string | undefined): PageOptions {
    const { onlyMainContent, includeImages, includeLinks, includeSelectors, excludeSelectors } =
      this.deps.options;
    const { linkSelectors } = this.deps.options;
    return {
      url: url.href,
      formats: this.formats,
      botName: this.botName,
      ...(contentType === undefined ? {} : { contentType }),
      ...(onlyMainContent === undefined ? {} : { onlyMainContent }),
      ...(includeImages === undefined ? {} : { includeImages }),
      ...(includeLinks === undefined ? {} : { includeLinks }),
      ...(includeSelectors ? { includeSelectors } : {}),
      ...(excludeSelectors ? { excludeSelectors } : {}),
      ...(linkSelectors ? { linkSelectors } : {}),
    };
  }

  private storedBody(page: Page): NonNullable<Result['body']> {
    const ifStored = <T>(format: string, value: T): T | undefined =>
      this.storedFormats.has(format) ? value : undefined;
    return {
      title: page.title,
      markdown: ifStored('markdown', page.markdown),
      text: ifStored('text', page.text),
      html: ifStored('html', page.html),
      links: ifStored(
        'links',
        page.links?.map(({ url, text }) => ({ url, text })),
      ),
      metadata: ifStored('metadata', page.metadata),
      structuredData: ifStored('structuredData', page.structuredData),
      images: ifStored('images', page.images),
    };
  }
}

function typeOf(headers: Record<string, string>): { type?: string } {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  return type ? { type: type.slice(0, 100) } : {};
}

/** Converts text to UTF-8. PDFs stay unchanged. */
function rawOf(body: Uint8Array, type: string | undefined): Uint8Array {
  if (isUtf8(body) || isPdf(body)) return Uint8Array.from(body);
  return Buffer.from(decodeBytes(body, type).text);
}

const isPdf = (body: Uint8Array): boolean =>
  Buffer.from(body.subarray(0, 5)).toString('latin1') === '%PDF-';

/** Zero bytes indicate a binary file, except in UTF-16 text and PDFs. */
function isBinary(body: Uint8Array, type = ''): boolean {
  if (/charset\s*=\s*"?utf-?16/i.test(type)) return false;
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.byteLength, 512));
  if (isPdf(body)) return false;
  if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff))
    return false;
  return head.includes(0);
}

function linksOf(page: Page, mayFollow: boolean): { links?: string[]; nofollow: string[] } {
  const all = page.followed ?? page.links ?? [];
  const isRefused = ({ rel }: { rel: string[] }) => !mayFollow || rel.includes('nofollow');
  const nofollow = all.filter(isRefused).map(({ url }) => url);
  if (!mayFollow) return { nofollow };
  return { links: all.filter((link) => !isRefused(link)).map(({ url }) => url), nofollow };
}

function comparedText(page: Page): { compared?: string } {
  const text = page.markdown ?? page.text;
  return text === undefined ? {} : { compared: text };
}

const picture = (rendered: Rendered | undefined): { screenshot?: string } =>
  rendered?.screenshot === undefined ? {} : { screenshot: rendered.screenshot };

function withoutNull<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(value).filter(([, v]) => v !== null && v !== undefined),
  ) as Partial<T>;
}
