// Detects redirects that lead back to their source, typically a cookie or consent check. Affected URLs are requested once
// more with cookies, as a browser would. If the redirect still leads back, it is a loop.
import type { WebStore } from '../../store/crawls.ts';
import type { Batch } from '../write/batch.ts';
import type { Candidate } from '../frontier/discovery.ts';
import type { Result } from './result.ts';
import { cookieFlag, type CrawlRow, type UrlChange, type UrlRow } from '../../store/rows.ts';
import { requeueUrl } from '../../store/crawl-steps.ts';
import { urlKey } from '../../url.ts';

const leadsBack = 'leadsBack';
const maxHops = 10;

export class RedirectLoops {
  private readonly store: WebStore;
  private readonly crawl: CrawlRow;

  constructor({ store, crawl }: { store: WebStore; crawl: CrawlRow }) {
    this.store = store;
    this.crawl = crawl;
  }

  /** Decides the outcome of a row that redirects to `target`. */
  async resolve(
    batch: Batch,
    { row, change }: Result,
    target: Candidate,
    known: Map<string, UrlRow>,
  ): Promise<Omit<UrlChange, 'seq'>> {
    const redirected = { ...change, target: target.url };
    if (change.reason !== undefined) return redirected;
    const source = { seq: row.seq, host: row.host };
    const sendsCookies = (row.flags & cookieFlag) !== 0;
    if (!sendsCookies) batch.redirected.set(target.url, [...(batch.redirected.get(target.url) ?? []), source]); // prettier-ignore
    const chain = await this.redirectChain(target.key, known);
    if (chain.some(({ reason }) => reason === leadsBack)) {
      if (sendsCookies) return { ...redirected, outcome: 'errored', reason: 'redirectLoop' };
      batch.redirectedBack.set(row.seq, row.host);
      return redirected;
    }
    const [there] = chain;
    // The redirect leads back to a URL that, over any number of hops, redirected to this one.
    if (!there?.target || chain.at(-1)!.key !== row.key) return redirected;
    const stored = await this.store.redirectedTo(this.crawl.crawl, there.target, cookieFlag);
    for (const { seq, host } of [...(batch.redirected.get(there.target) ?? []), ...stored])
      batch.redirectedBack.set(seq, host);
    return { ...redirected, reason: leadsBack };
  }

  /** Queues the affected rows again. */
  requeueAffected(batch: Batch): void {
    for (const [seq, host] of batch.redirectedBack) {
      batch.steps.push(requeueUrl(this.crawl.crawl, seq, 'redirected', cookieFlag));
      batch.wait(host, 1);
      batch.count('redirected', -1);
    }
  }

  /** The known chain of redirects that starts at a URL. */
  private async redirectChain(key: string, known: Map<string, UrlRow>): Promise<UrlRow[]> {
    const chain: UrlRow[] = [];
    for (let row = known.get(key); row && chain.length < maxHops;) {
      chain.push(row);
      if (row.outcome !== 'redirected' || !row.target) break;
      const next = urlKey(new URL(row.target));
      row = known.get(next) ?? (await this.store.byKey(this.crawl.crawl, next));
    }
    return chain;
  }
}
