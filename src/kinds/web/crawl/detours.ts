// Redirects that come back, mostly with a cookie: a wall that visitors are sent away to. Whoever was sent there is asked
// again, once, as a browser would; what still comes back then is a loop.
import type { WebStore } from '../store.ts';
import type { Batch } from './batch.ts';
import type { Candidate } from './discovery.ts';
import type { Result } from './result.ts';
import { walledFlag, type CrawlRow, type UrlChange, type UrlRow } from './rows.ts';
import { requeueUrl } from './store.ts';
import { urlKey } from './url.ts';

const leadsBack = 'leadsBack';
const hopsMax = 10;

export class Detours {
  private readonly store: WebStore;
  private readonly crawl: CrawlRow;

  constructor({ store, crawl }: { store: WebStore; crawl: CrawlRow }) {
    this.store = store;
    this.crawl = crawl;
  }

  /** What a redirect to `target` makes of its row. */
  async judge(
    batch: Batch,
    { row, change }: Result,
    target: Candidate,
    known: Map<string, UrlRow>,
  ): Promise<Omit<UrlChange, 'seq'>> {
    const led = { ...change, target: target.url };
    if (change.reason !== undefined) return led;
    const sent = { seq: row.seq, host: row.host };
    const isWalled = (row.flags & walledFlag) !== 0;
    if (!isWalled) batch.redirected.set(target.url, [...(batch.redirected.get(target.url) ?? []), sent]); // prettier-ignore
    const way = await this.wayFrom(target.key, known);
    if (way.some(({ reason }) => reason === leadsBack)) {
      if (isWalled) return { ...led, fate: 'errored', reason: 'redirectLoop' };
      batch.sentAway.set(row.seq, row.host);
      return led;
    }
    const [there] = way;
    // Back where it came from: to an address that, over however many others, was sent to this one.
    if (!there?.target || way.at(-1)!.key !== row.key) return led;
    const stored = await this.store.redirectedTo(this.crawl.crawl, there.target, walledFlag);
    for (const { seq, host } of [...(batch.redirected.get(there.target) ?? []), ...stored])
      batch.sentAway.set(seq, host);
    return { ...led, reason: leadsBack };
  }

  /** All that were sent away wait again. */
  reopen(batch: Batch): void {
    for (const [seq, host] of batch.sentAway) {
      batch.steps.push(requeueUrl(this.crawl.crawl, seq, 'redirected', walledFlag));
      batch.wait(host, 1);
      batch.count('redirected', -1);
    }
  }

  /** The rows of redirects from an address on, as far as they are known. */
  private async wayFrom(key: string, known: Map<string, UrlRow>): Promise<UrlRow[]> {
    const way: UrlRow[] = [];
    for (let row = known.get(key); row && way.length < hopsMax;) {
      way.push(row);
      if (row.fate !== 'redirected' || !row.target) break;
      const next = urlKey(new URL(row.target));
      row = known.get(next) ?? (await this.store.byKey(this.crawl.crawl, next));
    }
    return way;
  }
}
