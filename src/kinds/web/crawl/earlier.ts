// The crawl before this one, for change tracking: what it knew about an address, and which links led on from a page
// that has not changed since.
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
  /** Whether it stored all that is wished now: only then a page may stay as it was. */
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
    wish: { jobId: string | undefined; owner: string; formats: readonly string[] },
  ): Promise<Earlier | undefined> {
    if (wish.jobId === undefined) return undefined;
    const row = await store.find(wish.jobId);
    if (!row || row.owner !== wish.owner) return undefined;
    const known = new Set((await store.inputOf(wish.jobId)).formats);
    return new Earlier(
      store,
      row.crawl,
      wish.formats.every((format) => known.has(format)),
    );
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
