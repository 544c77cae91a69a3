// The crawl before this one, for change tracking: what it knew about an address, and which links led on from a page
// that has not changed since.
import type { CrawlOptions } from './options.ts';
import { pageFates, type UrlRow } from './rows.ts';
import type { WebStore } from '../store.ts';

export interface EarlierRow {
  crawl: number;
  row: UrlRow;
}

const linksMax = 5000;
const unseenMax = 200;

export class Earlier {
  readonly crawl: number;
  /** Whether it stored what is wished now: only then a page may stay as it was. */
  private readonly hasAll: boolean;
  private readonly store: WebStore;
  private looked = 0;

  private constructor(store: WebStore, crawl: number, hasAll: boolean) {
    this.store = store;
    this.crawl = crawl;
    this.hasAll = hasAll;
  }

  static async find(
    store: WebStore,
    owner: string,
    options: CrawlOptions,
  ): Promise<Earlier | undefined> {
    const { compareWith } = options;
    if (compareWith === undefined) return undefined;
    const row = await store.find(compareWith);
    if (row?.owner !== owner) return undefined;
    const before = (await store.inputOf(compareWith)) as CrawlOptions;
    return new Earlier(store, row.crawl, isStoredAlike(before, options));
  }

  /** Its row if «has it changed?» can be asked with it. */
  async row(key: string): Promise<EarlierRow | undefined> {
    if (!this.hasAll) return undefined;
    const row = await this.store.byKey(this.crawl, key);
    if (!row || !pageFates.has(row.fate) || (!row.etag && !row.modified)) return undefined;
    return { crawl: this.crawl, row };
  }

  /** Its next pages that this crawl has no row for. */
  async unseen(crawl: number): Promise<UrlRow[]> {
    const rows = await this.store.unseen(this.crawl, crawl, this.looked, unseenMax);
    this.looked = rows.at(-1)?.seq ?? this.looked;
    return rows;
  }

  async links(row: UrlRow): Promise<string[]> {
    return (await this.store.children(this.crawl, row.seq, linksMax)).map(({ url }) => url);
  }
}

/** What a page is made into depends on these. */
const shaping = [
  'schema',
  'selectors',
  'onlyMainContent',
  'includeImages',
  'includeLinks',
  'includeSelectors',
  'excludeSelectors',
] as const;

function isStoredAlike(before: CrawlOptions, now: CrawlOptions): boolean {
  // What a browser makes of a page may change while the page does not.
  if (now.render !== 'never' || now.actions || now.formats.includes('screenshot')) return false;
  if (before.render !== 'never' || before.actions) return false;
  // From a list of addresses no links were followed, and none are known.
  if (before.sitemap === 'only' && now.sitemap !== 'only') return false;
  const shape = (options: CrawlOptions) => JSON.stringify(shaping.map((name) => options[name]));
  return now.formats.every((format) => before.formats.includes(format)) && shape(before) === shape(now); // prettier-ignore
}
