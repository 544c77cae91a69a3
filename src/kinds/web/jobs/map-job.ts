// The map action: lists the URLs of a site from its sitemaps and links. Fetches a few pages, breadth first, and stores none.
import type { Run } from '../../../jobs/kind.ts';
import { folderOf, Scope } from '../crawl/frontier/scope.ts';
import { crawlOptions } from '../crawl/options.ts';
import { cleanUrl, parseUrl, urlKey } from '../url.ts';
import { loadPage, type Loaded } from '../fetch/load.ts';
import { fetchSitemap } from '../fetch/sitemap.ts';
import { hostPace } from '../fetch/pacer.ts';
import type { Fetched } from '../fetch/fetcher.ts';
import type { WebDeps } from '../deps.ts';
import { creditTable } from '../billing/credits.ts';
import { maxAddresses, type ActionInput } from './inputs.ts';
import { charge } from './page-jobs.ts';

interface Found {
  url: string;
  title?: string;
  source: 'start' | 'sitemap' | 'link';
  lastmod?: string;
}

const maxSitemapFiles = 50;
const maxSitemapBytes = 50 * 1024 * 1024;

export async function mapAction(run: Run, input: ActionInput<'map'>, services: WebDeps) {
  const map = new SiteMap(run, input, services);
  await map.find();
  const creditsUsed = creditTable.map;
  await charge(run, services, 'map', { creditsUsed, bytes: map.bytes, pages: map.fetched });
  const urls = rank([...map.found.values()], input.search).slice(0, input.limit);
  return {
    url: map.start.href,
    total: map.found.size,
    urls,
    pagesFetched: map.fetched,
    ...(map.warnings.length > 0 ? { warnings: map.warnings } : {}),
    creditsUsed,
  };
}

class SiteMap {
  readonly found = new Map<string, Found>();
  readonly warnings: string[] = [];
  readonly start: URL;
  fetched = 0;
  bytes = 0;
  private readonly run: Run;
  private readonly input: ActionInput<'map'>;
  private readonly services: WebDeps;
  private readonly scope: Scope;
  private readonly pending: string[] = [];

  constructor(run: Run, input: ActionInput<'map'>, services: WebDeps) {
    this.run = run;
    this.input = input;
    this.services = services;
    this.start = cleanUrl(parseUrl(input.url));
    const options = crawlOptions.parse({ url: this.start.href, subdomains: input.subdomains });
    this.scope = new Scope(options, { hosts: [this.start.host], folders: [folderOf(this.start)] });
  }

  /** A search ranks all URLs, so it needs more than the limit. */
  private get enough(): boolean {
    return this.found.size >= (this.input.search === undefined ? this.input.limit : maxAddresses);
  }

  /** Reads the start first, because it may redirect to another host, which then has the sitemaps and links. */
  async find(): Promise<void> {
    this.add(this.start.href, 'start');
    let home = this.start;
    const first = await this.read(this.start.href).catch((error: unknown) => {
      this.run.signal.throwIfAborted();
      return error as Error;
    });
    if ('page' in first) {
      home = new URL(first.url);
      const hosts = [...new Set([this.start.host, home.host])];
      this.scope.widen({ hosts, folders: [folderOf(this.start), folderOf(home)] });
    }
    if (this.input.sitemap !== 'skip') await this.readSitemaps(home.origin);
    if (this.input.sitemap === 'only') return;
    if ('page' in first) this.addLinks(this.start.href, first);
    else if (this.found.size <= 1) throw first;
    else this.warn(this.start.href, first);
    await this.followLinks();
  }

  private add(address: string, source: Found['source'], more: Partial<Found> = {}): void {
    const parsed = URL.parse(address);
    if (!parsed) return;
    const url = cleanUrl(parsed, this.input.query);
    const isStart = source === 'start';
    if (this.scope.skip({ url, depth: 0, fromExternal: false, isStart })) return;
    const key = urlKey(url);
    if (this.found.has(key)) return;
    this.found.set(key, { url: url.href, source, ...more });
    this.pending.push(url.href);
  }

  private async readSitemaps(origin: string): Promise<void> {
    const { robots } = this.services;
    const rules = await robots.rules(origin, this.run.signal);
    const files = rules.sitemaps.length > 0 ? [...rules.sitemaps] : [`${origin}/sitemap.xml`];
    for (let i = 0; i < files.length && i < maxSitemapFiles && !this.enough; i++) {
      this.run.signal.throwIfAborted();
      try {
        const sitemap = await fetchSitemap(files[i]!, (url) => this.ask(url));
        if (!sitemap) continue;
        this.bytes += sitemap.bytes;
        files.push(...sitemap.files.filter((file) => !files.includes(file)));
        for (const { url, lastmod } of sitemap.urls)
          this.add(url, 'sitemap', lastmod === undefined ? {} : { lastmod });
      } catch (error) {
        this.run.signal.throwIfAborted();
        this.warn(files[i]!, error as Error);
      }
    }
  }

  private ask(url: string): Promise<Fetched> {
    const { fetch, pacer, settings } = this.services;
    const { signal } = this.run;
    const { host } = new URL(url);
    const headers = { 'user-agent': settings.userAgent };
    const request = { url, headers, timeoutMs: 20_000, maxBytes: maxSitemapBytes, signal };
    return pacer.turn(
      host,
      () => hostPace(host, settings),
      signal,
      () => fetch(request),
    );
  }

  private async followLinks(): Promise<void> {
    for (
      let i = 1;
      i < this.pending.length && this.fetched < this.input.maxFetch && !this.enough;
      i++
    ) {
      this.run.signal.throwIfAborted();
      const url = this.pending[i]!;
      try {
        this.addLinks(url, await this.read(url));
      } catch {
        this.run.signal.throwIfAborted();
      }
      if (this.fetched % 10 === 0)
        await this.run.report({ progress: { done: this.found.size, unit: 'addresses' } });
    }
  }

  private async read(url: string): Promise<Loaded> {
    const { job, signal } = this.run;
    const formats = ['links', 'metadata'] as const;
    const request = { url, formats, jobId: job.id, signal, render: 'never' } as const;
    const loaded = await loadPage(request, this.services);
    this.fetched++;
    this.bytes += loaded.bytes;
    return loaded;
  }

  private addLinks(url: string, { page }: Loaded): void {
    const entry = this.found.get(urlKey(cleanUrl(new URL(url))));
    if (entry && page.title) entry.title = page.title;
    for (const link of page.links ?? []) {
      const title = titleOf(link.text);
      this.add(link.url, 'link', title === undefined ? {} : { title });
      // A later link may have a title where the first one had none.
      const known = this.found.get(urlKey(cleanUrl(new URL(link.url), this.input.query)));
      if (known && known.title === undefined && title !== undefined) known.title = title;
    }
  }

  private warn(url: string, { message }: Error): void {
    this.warnings.push(`${url}: ${message.slice(0, 200)}`);
  }
}

/** Link texts that describe navigation instead of the target page. */
const pointers = new Set([
  ...'next previous prev back forward up down top home index start more here details continue'.split(
    ' ',
  ),
  ...'older newer first last permalink edit share print menu contents modules link source'.split(
    ' ',
  ),
  ...['read more', 'learn more', 'see more', 'click here', 'this link', 'continue reading'],
  ...['edit this page', 'view page source', 'show source', 'view source', 'toggle navigation'],
  ...['skip to content', 'skip to main content', 'next page', 'previous page', 'next chapter'],
  ...['previous chapter', 'next topic', 'previous topic', 'go to next page', 'go to previous page'],
]);

function titleOf(text: string): string | undefined {
  const plain = text
    .replace(/[¶#§\u{F0C1}]\s*$/u, '')
    .replace(/^[\s«‹<←→»›>|]+|[\s«‹<←→»›>|]+$/g, '');
  if (!/[\p{L}\p{N}]/u.test(plain) || /^\d{1,4}$/.test(plain)) return undefined;
  return pointers.has(plain.toLowerCase()) ? undefined : plain;
}

/** Sorts by the number of search words in title and URL. Without a search, keeps the order of discovery. */
function rank(found: Found[], search: string | undefined): Found[] {
  const words = search?.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  if (words.length === 0) return found;
  const score = ({ url, title = '' }: Found): number => {
    const name = title.toLowerCase();
    const path = decodeURI(safe(url)).toLowerCase();
    return words.reduce(
      (sum, word) => sum + (name.includes(word) ? 2 : 0) + (path.includes(word) ? 1 : 0),
      0,
    );
  };
  return found
    .map((entry) => ({ entry, points: score(entry) }))
    .filter(({ points }) => points > 0)
    .toSorted((a, b) => b.points - a.points || a.entry.url.length - b.entry.url.length)
    .map(({ entry }) => entry);
}

const safe = (url: string): string =>
  url.replace(/%(?![0-9a-f]{2})/gi, '%25').replace(/%[89a-f][0-9a-f]/gi, '');
