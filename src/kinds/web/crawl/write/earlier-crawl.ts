// Reads the earlier crawl for change tracking (`compareWith`): its rows, and the links of pages that have not changed.
import type { CrawlOptions } from '../options.ts';
import { pageOutcomes, type UrlRow } from '../../store/rows.ts';
import type { WebStore } from '../../store/crawls.ts';

export interface EarlierRow {
  crawl: number;
  row: UrlRow;
}

const maxLinks = 5000;
const maxUnseen = 200;

export class EarlierCrawl {
  readonly crawl: number;
  /** Whether the earlier crawl stored everything this one needs. Only then can unchanged pages be copied. */
  private readonly storesAllFormats: boolean;
  private readonly store: WebStore;
  private lastSeq = 0;

  private constructor(store: WebStore, crawl: number, storesAllFormats: boolean) {
    this.store = store;
    this.crawl = crawl;
    this.storesAllFormats = storesAllFormats;
  }

  static async find(
    store: WebStore,
    owner: string,
    options: CrawlOptions,
  ): Promise<EarlierCrawl | undefined> {
    const { compareWith } = options;
    if (compareWith === undefined) return undefined;
    const row = await store.find(compareWith);
    if (row?.owner !== owner) return undefined;
    const before = (await store.inputOf(compareWith)) as CrawlOptions;
    return new EarlierCrawl(store, row.crawl, storesSameContent(before, options));
  }

  /** The earlier row, if it allows a conditional request (ETag or Last-Modified). */
  async row(key: string): Promise<EarlierRow | undefined> {
    if (!this.storesAllFormats) return undefined;
    const row = await this.store.byKey(this.crawl, key);
    if (!row || !pageOutcomes.has(row.outcome) || (!row.etag && !row.modified)) return undefined;
    return { crawl: this.crawl, row };
  }

  /** The next earlier pages without a row in this crawl. */
  async unseen(crawl: number): Promise<UrlRow[]> {
    const rows = await this.store.unseen(this.crawl, crawl, this.lastSeq, maxUnseen);
    this.lastSeq = rows.at(-1)?.seq ?? this.lastSeq;
    return rows;
  }

  async links(row: UrlRow): Promise<string[]> {
    return (await this.store.children(this.crawl, row.seq, maxLinks)).map(({ url }) => url);
  }
}

/** Options that affect the stored content of a page. */
const contentOptions = [
  'schema',
  'selectors',
  'onlyMainContent',
  'includeImages',
  'includeLinks',
  'includeSelectors',
  'excludeSelectors',
] as const;

function storesSameContent(before: CrawlOptions, now: CrawlOptions): boolean {
  // A rendered page can change while its HTML does not.
  if (now.render !== 'never' || now.actions || now.formats.includes('screenshot')) return false;
  if (before.render !== 'never' || before.actions) return false;
  // A sitemap-only crawl followed no links, so it stored none.
  if (before.sitemap === 'only' && now.sitemap !== 'only') return false;
  const shape = (options: CrawlOptions) =>
    JSON.stringify(contentOptions.map((name) => options[name]));
  return now.formats.every((format) => before.formats.includes(format)) && shape(before) === shape(now); // prettier-ignore
}
