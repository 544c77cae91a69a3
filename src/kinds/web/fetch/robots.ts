// robots.txt by RFC 9309: 4xx allows everything, 5xx or no response forbids everything. Cached for one day, limited to the
// first 500 KiB and five redirects. Also reads the Crawl-delay and Sitemap extensions.
import robotsParser from 'robots-parser';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { failureOf, type Failure, type Fetch } from './fetcher.ts';

interface Rules {
  allows(url: string): boolean;
  crawlDelayMs: number | undefined;
  sitemaps: string[];
  /** Why robots.txt could not be fetched. Then nothing is allowed. */
  unreachable?: Failure;
}

const keptMs = 86_400_000;
/** Shorter than the delay before a page is retried, so that a brief outage does not fail all pages of a crawl. */
const keptUnreachableMs = 1000;
const maxBytes = 512_000;
const maxStars = 2000;
const maxRedirects = 5;
const maxEntries = 10_000;
const timeoutMs = 15_000;

const allowAll: Rules = { allows: () => true, crawlDelayMs: undefined, sitemaps: [] };

interface RobotsParser {
  isAllowed(url: string, ua?: string): boolean | undefined;
  getCrawlDelay(ua?: string): number | undefined;
  getSitemaps(): string[];
}
const parseRobots = robotsParser as unknown as (url: string, text: string) => RobotsParser;

export class Robots {
  private readonly deps: { fetch: Fetch; clock: Clock; userAgent: string };
  private readonly cache = new Map<string, { rules: Promise<Rules>; until: number }>();

  constructor(deps: { fetch: Fetch; clock: Clock; userAgent: string }) {
    this.deps = deps;
  }

  /** The rules of an origin. Concurrent callers share one request. */
  async rules(origin: string, signal?: AbortSignal): Promise<Rules> {
    const rules = this.cachedRules(origin);
    if (!signal) return rules;
    signal.throwIfAborted();
    // An aborted caller must not abort the shared request.
    const gone = Promise.withResolvers<never>();
    const leave = () => gone.reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([rules, gone.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  private cachedRules(origin: string): Promise<Rules> {
    const now = this.deps.clock.now();
    const known = this.cache.get(origin);
    if (known && known.until > now) return known.rules;
    if (this.cache.size >= maxEntries) this.cache.clear();
    const entry = { rules: this.load(origin), until: now + keptMs };
    this.cache.set(origin, entry);
    entry.rules.then(
      (rules) => {
        if (rules.unreachable !== undefined)
          entry.until = this.deps.clock.now() + keptUnreachableMs;
      },
      () => this.cache.delete(origin),
    );
    return entry.rules;
  }

  private async load(origin: string): Promise<Rules> {
    let url = `${origin}/robots.txt`;
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const response = await this.get(url);
      if ('unreachable' in response) return { ...allowAll, allows: () => false, ...response };
      const { status, headers, body } = response;
      if (status >= 300 && status < 400) {
        const next = URL.parse(headers.location ?? '', url);
        if (!next || !/^https?:$/.test(next.protocol)) return allowAll;
        url = next.href;
        continue;
      }
      if (status >= 500 || status === 429) {
        const message = `robots.txt responded with status ${status}`;
        const unreachable = { reason: `http${status}`, message, passing: true };
        return { ...allowAll, allows: () => false, unreachable };
      }
      if (status >= 400) return allowAll;
      return this.parse(`${origin}/robots.txt`, wholeLines(body));
    }
    return allowAll;
  }

  private async get(url: string) {
    try {
      const headers = { 'user-agent': this.deps.userAgent, accept: 'text/plain, */*;q=0.5' };
      return await this.deps.fetch({ url, headers, timeoutMs, maxBytes, cut: true });
    } catch (error) {
      if (error instanceof AppError && error.code === 'egressRefused') throw error;
      const failure = failureOf(error);
      const message = `robots.txt could not be fetched: ${failure.message}`;
      return { unreachable: { ...failure, message } };
    }
  }

  private parse(url: string, text: string): Rules {
    const parsed = parseRobots(url, withFewStars(text));
    const token = botName(this.deps.userAgent);
    const delay = parsed.getCrawlDelay(token);
    return {
      allows: (page) => parsed.isAllowed(normalEscapes(page), token) ?? true,
      crawlDelayMs: delay === undefined || Number.isNaN(delay) ? undefined : delay * 1000,
      sitemaps: parsed.getSitemaps().flatMap((line) => URL.parse(line, url)?.href ?? []),
    };
  }
}

/** The bot name in robots.txt: the first word of the user agent. */
export const botName = (userAgent: string): string => userAgent.split(/[/\s]/)[0]!;

/** Drops a truncated last line, which could mean something else: `/private` could become `/`. */
function wholeLines(body: Uint8Array): string {
  const text = Buffer.from(body).toString('utf8');
  if (body.byteLength < maxBytes) return text;
  return text.slice(0, Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1);
}

/**
 * Limits wildcards, because each one costs time for every URL, and a hostile file could block the server for seconds.
 * Disallow rules beyond the limit are shortened to their prefix, which is cheap and never allows more.
 */
function withFewStars(text: string): string {
  let stars = 0;
  const lines = text.split(/\r\n|\r|\n/).map((line) => {
    const [rule = '', ...rest] = line.split('#', 1)[0]!.split('*');
    if (rest.length === 0 || /^\s*(?:user-agent|sitemap)/i.test(rule)) return line;
    stars += rest.length;
    if (stars <= maxStars) return line;
    if (!/^\s*disallow/i.test(rule)) return '';
    return /:\s*$/.test(rule) ? `${rule}/` : rule;
  });
  return stars > maxStars ? lines.join('\n') : text;
}

/** RFC 9309 treats %7E and ~ as equal, but the parser does not. */
function normalEscapes(url: string): string {
  return url.replace(/%(?:7E|2D|2E|5F)/gi, (hex) =>
    String.fromCharCode(Number.parseInt(hex.slice(1), 16)),
  );
}
