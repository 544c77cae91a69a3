// robots.txt by RFC 9309: 4xx means everything is allowed, 5xx or no answer means nothing is; kept for a day at most; its
// first 500 KiB count; five redirects. Crawl-delay and Sitemap lines are what sites add to it.
import robotsParser from 'robots-parser';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { failureOf, type Failure, type Fetch } from './fetcher.ts';

export interface Rules {
  allows(url: string): boolean;
  crawlDelayMs: number | undefined;
  sitemaps: string[];
  /** Why nothing is allowed although no rule says so. */
  unreachable?: Failure;
}

const keptMs = 86_400_000;
/** Before the next try of a page that waits for it: an outage of a moment must not cost a crawl all its pages. */
const keptUnreachableMs = 1000;
const bytesMax = 512_000;
const starsMax = 2000;
const redirectsMax = 5;
const entriesMax = 10_000;
const timeoutMs = 15_000;

const allowAll: Rules = { allows: () => true, crawlDelayMs: undefined, sitemaps: [] };

interface RobotsParser {
  isAllowed(url: string, ua?: string): boolean | undefined;
  getCrawlDelay(ua?: string): number | undefined;
  getSitemaps(): string[];
}
const parseRobots = robotsParser as unknown as (url: string, text: string) => RobotsParser;

export class Robots {
  private readonly needs: { fetch: Fetch; clock: Clock; userAgent: string };
  private readonly kept = new Map<string, { rules: Promise<Rules>; until: number }>();

  constructor(needs: { fetch: Fetch; clock: Clock; userAgent: string }) {
    this.needs = needs;
  }

  /** The rules of an origin, fetched once at a time. */
  async rules(origin: string, signal?: AbortSignal): Promise<Rules> {
    const rules = this.shared(origin);
    if (!signal) return rules;
    signal.throwIfAborted();
    // Who stops waiting must not spoil it for the others who wait.
    const gone = Promise.withResolvers<never>();
    const leave = () => gone.reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([rules, gone.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  private shared(origin: string): Promise<Rules> {
    const now = this.needs.clock.now();
    const known = this.kept.get(origin);
    if (known && known.until > now) return known.rules;
    if (this.kept.size >= entriesMax) this.kept.clear();
    const entry = { rules: this.load(origin), until: now + keptMs };
    this.kept.set(origin, entry);
    entry.rules.then(
      (rules) => {
        if (rules.unreachable !== undefined)
          entry.until = this.needs.clock.now() + keptUnreachableMs;
      },
      () => this.kept.delete(origin),
    );
    return entry.rules;
  }

  private async load(origin: string): Promise<Rules> {
    let url = `${origin}/robots.txt`;
    for (let hop = 0; hop <= redirectsMax; hop++) {
      const answer = await this.get(url);
      if ('unreachable' in answer) return { ...allowAll, allows: () => false, ...answer };
      const { status, headers, body } = answer;
      if (status >= 300 && status < 400) {
        const next = URL.parse(headers.location ?? '', url);
        if (!next || !/^https?:$/.test(next.protocol)) return allowAll;
        url = next.href;
        continue;
      }
      if (status >= 500 || status === 429) {
        const message = `robots.txt answered ${status}`;
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
      const headers = { 'user-agent': this.needs.userAgent, accept: 'text/plain, */*;q=0.5' };
      return await this.needs.fetch({ url, headers, timeoutMs, bytesMax, cut: true });
    } catch (error) {
      if (error instanceof AppError && error.code === 'egressRefused') throw error;
      const failure = failureOf(error);
      const message = `robots.txt could not be had: ${failure.message}`;
      return { unreachable: { ...failure, message } };
    }
  }

  private parse(url: string, text: string): Rules {
    const parsed = parseRobots(url, withFewStars(text));
    const token = botName(this.needs.userAgent);
    const delay = parsed.getCrawlDelay(token);
    return {
      allows: (page) => parsed.isAllowed(normalEscapes(page), token) ?? true,
      crawlDelayMs: delay === undefined || Number.isNaN(delay) ? undefined : delay * 1000,
      sitemaps: parsed.getSitemaps().flatMap((line) => URL.parse(line, url)?.href ?? []),
    };
  }
}

/** Under which name sites have rules for us. */
export const botName = (userAgent: string): string => userAgent.split(/[/\s]/)[0]!;

/** Half a line says something else than the line: `/private` cut short may be `/`. */
function wholeLines(body: Uint8Array): string {
  const text = Buffer.from(body).toString('utf8');
  if (body.byteLength < bytesMax) return text;
  return text.slice(0, Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1);
}

/**
 * Every star is work for every address, and a file made of them would hold up the server for seconds each time. Rules
 * beyond the limit forbid what begins like them, which costs nothing and allows nothing that they would not.
 */
function withFewStars(text: string): string {
  let stars = 0;
  const lines = text.split(/\r\n|\r|\n/).map((line) => {
    const [rule = '', ...rest] = line.split('#', 1)[0]!.split('*');
    if (rest.length === 0 || /^\s*(?:user-agent|sitemap)/i.test(rule)) return line;
    stars += rest.length;
    if (stars <= starsMax) return line;
    if (!/^\s*disallow/i.test(rule)) return '';
    return /:\s*$/.test(rule) ? `${rule}/` : rule;
  });
  return stars > starsMax ? lines.join('\n') : text;
}

/** RFC 9309 compares %7E and ~ as equal; the parser compares as written. */
function normalEscapes(url: string): string {
  return url.replace(/%(?:7E|2D|2E|5F)/gi, (hex) =>
    String.fromCharCode(Number.parseInt(hex.slice(1), 16)),
  );
}
