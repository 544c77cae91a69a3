// One visit: ask robots.txt, fetch, read, and say what became of the address. Nothing is written here.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { AppError } from '../../../errors.ts';
import { decodeBytes } from '../content/charset.ts';
import type { Page, PageFormat, PageOptions } from '../content/types.ts';
import {
  failureOf,
  isRedirect,
  retryAfterMs,
  type Fetched,
  type Failure,
} from '../fetch/fetcher.ts';
import type { Reader } from '../fetch/reader.ts';
import { botName } from '../fetch/robots.ts';
import { forbidsFollowing } from '../fetch/robots-tag.ts';
import type { Waiting } from './rows.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Rendered, RenderWish } from '../browser/rendered.ts';
import { ShareUsedUp, type ByteShare } from './bytes.ts';
import type { Earlier, EarlierRow } from './earlier.ts';
import { Requests, type RequestNeeds } from './requests.ts';
import type { Result } from './result.ts';

export interface VisitNeeds extends RequestNeeds {
  clock: Clock;
  reader: Reader;
  earlier: Earlier | undefined;
  crawlDelay(host: string, delayMs: number): void;
  render(url: string, wish: RenderWish): Promise<Rendered>;
  extract(html: string, url: string): Promise<unknown>;
  credits: { page: number; rendered: number };
}

type Outcome = Omit<Result, 'bytes'>;

/** Pages with fewer words are compared by their bytes: two «Loading…» are not one page. */
const wordsMin = 20;

export class Visitor {
  private readonly needs: VisitNeeds;
  private readonly formats: PageFormat[];
  private readonly wishes: ReadonlySet<string>;
  private readonly botName: string;
  private readonly requests: Requests;

  constructor(needs: VisitNeeds) {
    this.needs = needs;
    this.wishes = new Set(needs.options.formats);
    this.botName = botName(needs.settings.userAgent);
    this.requests = new Requests(needs);
    const read = needs.options.formats.filter((f) => f !== 'raw' && f !== 'screenshot');
    this.formats = [...new Set<PageFormat>([...read, 'links'])];
  }

  /** Fails when the crawl stops, or when the share was too small. */
  async visit(row: Waiting, share: ByteShare): Promise<Result> {
    try {
      return { ...(await this.look(row, share)), bytes: share.taken };
    } catch (error) {
      if (this.needs.signal.aborted || error instanceof ShareUsedUp) throw error;
      return { ...this.failed(row, failureOf(error)), bytes: share.taken };
    }
  }

  private async look(row: Waiting, share: ByteShare): Promise<Outcome> {
    const url = new URL(row.url);
    const refused = await this.askRobots(row, url);
    if (refused) return refused;
    const earlier = await this.needs.earlier?.row(row.key);
    const answer = await this.requests.get(row, earlier?.row, share);
    if (answer.status === 304 && earlier) return this.notModified(row, earlier);
    return this.judge(row, url, answer);
  }

  private async askRobots(row: Waiting, url: URL): Promise<Outcome | undefined> {
    const { robots, options, signal } = this.needs;
    if (options.robots === 'ignore') return undefined;
    const rules = await robots.rules(url.origin, signal);
    if (rules.crawlDelayMs !== undefined) this.needs.crawlDelay(url.host, rules.crawlDelayMs);
    const { unreachable } = rules;
    if (unreachable) {
      // Nobody is there at all: that is what is wrong with the page, too.
      if (['dns', 'connect', 'tls'].includes(unreachable.reason))
        return this.failed(row, unreachable);
      const result = this.failed(row, { ...unreachable, reason: 'robotsUnreachable', passing: true }); // prettier-ignore
      if (result.change.fate === 'errored') result.change.fate = 'disallowed';
      return result;
    }
    if (rules.allows(url.href)) return undefined;
    return {
      row,
      change: { fate: 'disallowed', reason: 'robots' },
      host: 'unknown',
      credits: 0,
    };
  }

  private async notModified(row: Waiting, earlier: EarlierRow): Promise<Outcome> {
    const { textHash, title, type, etag, modified, bytes, status } = earlier.row;
    const change = { textHash, title, type, etag, modified, bytes, status };
    return {
      row,
      change: { ...withoutNull(change), fate: 'unchanged', reason: 'notModified' },
      links: await this.needs.earlier!.links(earlier.row),
      unchangedSince: { crawl: earlier.crawl, seq: earlier.row.seq },
      host: 'works',
      credits: this.needs.credits.page,
    };
  }

  private async judge(row: Waiting, url: URL, answer: Fetched): Promise<Outcome> {
    const { status, headers, body } = answer;
    const seen = { status, bytes: body.byteLength, ...typeOf(headers) };
    const base = { row, credits: 0 };
    if (isRedirect(answer)) return this.redirected(row, url, answer);
    if (status === 429 || status === 503) return this.asked(row, answer);
    if (status >= 500 || status === 408 || status === 425) {
      return this.failed(
        row,
        { reason: `http${status}`, message: `answered ${status}`, passing: true },
        seen,
      );
    }
    if (status >= 400 || status < 200 || [204, 205, 304].includes(status)) {
      return {
        ...base,
        change: { fate: 'errored', reason: `http${status}`, ...seen },
        host: 'works',
      };
    }
    return this.page(row, url, answer);
  }

  private redirected(row: Waiting, url: URL, { status, headers }: Fetched): Outcome {
    const base = { row, credits: 0, host: 'works' as const };
    const target = URL.parse(headers.location ?? '', url.href);
    const wrong = !target
      ? 'badRedirect'
      : this.requests.keyOf(target) === row.key
        ? 'redirectLoop'
        : row.hops >= this.needs.settings.redirectsMax
          ? 'tooManyRedirects'
          : undefined;
    if (wrong !== undefined || !target)
      return { ...base, change: { fate: 'errored', reason: wrong!, status } };
    return { ...base, change: { fate: 'redirected', status }, redirect: target.href };
  }

  /** A meta refresh is a redirect, but for one to the page itself: scripts or cookies would make that another one. */
  private refreshed(
    row: Waiting,
    { refresh }: Page,
  ): Pick<Result, 'change' | 'redirect'> | undefined {
    if (refresh === undefined || this.requests.keyOf(new URL(refresh)) === row.key)
      return undefined;
    return row.hops >= this.needs.settings.redirectsMax
      ? { change: { fate: 'errored', reason: 'tooManyRedirects' } }
      : { change: { fate: 'redirected', reason: 'metaRefresh' }, redirect: refresh };
  }

  /** 429 and 503: the site says when. */
  private asked(row: Waiting, { status, headers }: Fetched): Outcome {
    const { settings, clock } = this.needs;
    const wish = retryAfterMs(headers['retry-after'], clock.now());
    const failure = { reason: `http${status}`, message: `answered ${status}`, passing: true };
    if (wish === undefined) return this.failed(row, failure, { status });
    if (wish > settings.retryAfterMsMax) {
      const detail = `asked to come back after ${Math.round(wish / 1000)} s, longer than retryAfterMsMax`;
      return {
        ...this.failed(row, { ...failure, message: detail, passing: false }, { status }),
        host: 'fails',
      };
    }
    const result = this.failed(row, failure, { status }, wish);
    return { ...result, host: { restMs: wish } };
  }

  private failed(row: Waiting, failure: Failure, seen: object = {}, waitMs?: number): Outcome {
    const { settings, clock } = this.needs;
    const tries = row.tries + 1;
    const again = failure.passing && tries < settings.triesMax;
    const usual = settings.backoffMs * 2 ** row.tries * (0.75 + Math.random() / 2);
    const pause = Math.max(waitMs ?? 0, usual);
    const hint = failure.hint === undefined ? '' : ` ${failure.hint}`;
    return {
      row,
      change: {
        ...seen,
        fate: again ? 'queued' : 'errored',
        reason: failure.reason,
        detail: `${failure.message}${hint}`.slice(0, 500),
        tries,
        ...(again ? { readyAt: Math.round(clock.now() + pause) } : {}),
      },
      host: failure.passing ? 'fails' : 'unknown',
      credits: 0,
    };
  }

  private async page(row: Waiting, url: URL, answer: Fetched): Promise<Outcome> {
    const { options, reader, credits } = this.needs;
    const { headers, body, status } = answer;
    const bytes = body.byteLength;
    if (isBinary(body, headers['content-type'])) {
      const change = {
        fate: 'skipped',
        reason: 'fileType',
        status,
        bytes,
        ...typeOf(headers),
      } as const;
      return { row, credits: 0, host: 'works', change };
    }
    const bodyHash = createHash('sha256').update(body).digest('hex');
    const type = headers['content-type'];
    const raw = this.wishes.has('raw') ? rawOf(body, type) : undefined;
    const html = options.schema ? decodeBytes(body, type).text : undefined;
    const always = options.render === 'always' || options.actions !== undefined;
    const first = always ? undefined : await reader.read(body, this.reading(url, type));
    const needsBrowser = always || (options.render === 'auto' && first!.needsBrowser);
    const isHtml = !first || first.kind === 'html';
    const wantsBrowser = (needsBrowser || this.wishes.has('screenshot')) && isHtml;
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
      return { ...base, credits: 0, change: { fate: 'skipped', reason: 'fileType', ...seen } };
    const moved = this.refreshed(row, page);
    if (moved) return { ...base, credits: 0, ...moved, change: { ...moved.change, ...seen } };
    const data =
      options.schema && page.kind === 'html'
        ? await this.needs.extract(rendered?.html ?? html!, url.href)
        : undefined;
    const detail = needsBrowser && !rendered ? missing : rendered?.failed;
    return {
      ...base,
      change: {
        ...seen,
        fate: 'fetched',
        ...(page.title === undefined ? {} : { title: page.title.slice(0, 500) }),
        ...(headers.etag === undefined ? {} : { etag: headers.etag }),
        ...(headers['last-modified'] === undefined ? {} : { modified: headers['last-modified'] }),
        ...(detail === undefined ? {} : { detail: detail.slice(0, 500) }),
        textHash: page.wordCount >= wordsMin ? page.textHash : bodyHash,
      },
      body: {
        ...this.kept(page),
        ...(raw ? { raw } : {}),
        ...(data === undefined ? {} : { data }),
        ...picture(rendered),
      },
      ...comparedText(page),
      ...(this.mayFollow(page, answer) ? { links: followable(page) } : {}),
      ...(page.canonical === undefined ? {} : { canonical: page.canonical }),
      ...(rendered ? { browserMs: rendered.ms } : {}),
    };
  }

  private mayFollow(page: Page, { robotsTags }: Fetched): boolean {
    return !page.robots.nofollow && !forbidsFollowing(robotsTags, this.botName);
  }

  /** Without a browser, or with one that cannot start, the page is what it is without scripts; `missing` says why. */
  private async render(url: URL): Promise<{ rendered?: Rendered; missing?: string }> {
    const { options, signal, ownHeaders, render } = this.needs;
    const { actions } = options;
    const screenshot = this.wishes.has('screenshot');
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
      return { missing: `The page needs a browser to show all of its content. ${error.message}` };
    }
  }

  private reading(url: URL, contentType: string | undefined): PageOptions {
    const { onlyMainContent, includeImages, includeLinks, includeSelectors, excludeSelectors } =
      this.needs.options;
    const { linkSelectors } = this.needs.options;
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

  private kept(page: Page): NonNullable<Result['body']> {
    const wish = <T>(format: string, value: T): T | undefined =>
      this.wishes.has(format) ? value : undefined;
    return {
      title: page.title,
      markdown: wish('markdown', page.markdown),
      text: wish('text', page.text),
      html: wish('html', page.html),
      links: wish(
        'links',
        page.links?.map(({ url, text }) => ({ url, text })),
      ),
      metadata: wish('metadata', page.metadata),
      structuredData: wish('structuredData', page.structuredData),
      images: wish('images', page.images),
    };
  }
}

function typeOf(headers: Record<string, string>): { type?: string } {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  return type ? { type: type.slice(0, 100) } : {};
}

/** Text as text, in whatever charset it came; it is read as UTF-8. */
function rawOf(body: Uint8Array, type: string | undefined): Uint8Array {
  if (isUtf8(body) || isPdf(body)) return Uint8Array.from(body);
  return Buffer.from(decodeBytes(body, type).text);
}

const isPdf = (body: Uint8Array): boolean =>
  Buffer.from(body.subarray(0, 5)).toString('latin1') === '%PDF-';

/** Zero bytes are in no text but UTF-16, and PDFs say what they are. */
function isBinary(body: Uint8Array, type = ''): boolean {
  if (/charset\s*=\s*"?utf-?16/i.test(type)) return false;
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.byteLength, 512));
  if (isPdf(body)) return false;
  if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff))
    return false;
  return head.includes(0);
}

const followable = (page: Page): string[] =>
  (page.followed ?? page.links ?? [])
    .filter(({ rel }) => !rel.includes('nofollow'))
    .map(({ url }) => url);

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
