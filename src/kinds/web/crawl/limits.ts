// When a crawl has enough: pages, bytes, credits, the owner's budget, time. What is under way counts as if it would all
// become pages, so that no limit is passed.
import { creditTable } from '../usage/credits.ts';
import type { Allowance } from './allowance.ts';
import type { StopCause } from './needs.ts';
import type { CrawlOptions } from './options.ts';
import type { CrawlRow } from './rows.ts';

export class Limits {
  private readonly options: CrawlOptions;
  private readonly allowance: Allowance;
  private readonly pageCost: number;

  constructor(options: CrawlOptions, allowance: Allowance) {
    this.options = options;
    this.allowance = allowance;
    this.pageCost = pageCost(options);
  }

  reached(pages: number, { bytes, credits, activeMs }: CrawlRow): StopCause | undefined {
    const {
      maxPages,
      bytesMax = Infinity,
      creditsMax = Infinity,
      timeMsMax = Infinity,
    } = this.options;
    if (pages >= maxPages) return 'limit';
    if (bytes >= bytesMax) return 'bytes';
    if (credits + this.pageCost > creditsMax) return 'credits';
    if (this.allowance.isOut(credits, this.pageCost)) return 'budget';
    return activeMs >= timeMsMax ? 'time' : undefined;
  }

  /** One more request may start beside those under way. */
  hasRoom(pages: number, credits: number, underWay: number): boolean {
    const { maxPages, creditsMax = Infinity } = this.options;
    const left = Math.min(creditsMax - credits, this.allowance.left(credits));
    return pages + underWay < maxPages && (underWay + 1) * this.pageCost <= left;
  }
}

/** Credits of one page, at most. */
export function pageCost({
  render,
  actions,
  formats,
}: Pick<CrawlOptions, 'render' | 'actions' | 'formats'>): number {
  const renders = render !== 'never' || actions !== undefined || formats.includes('screenshot');
  return creditTable.crawlPage + (renders ? creditTable.renderedPage : 0);
}
