// Checks the limits of a crawl: pages, bytes, credits, the owner's budget and time. Running requests count as pages, so no
// limit is exceeded.
import { creditTable } from '../billing/credits.ts';
import type { BudgetReserve } from '../billing/budget-reserve.ts';
import type { StopCause } from './deps.ts';
import type { CrawlOptions } from './options.ts';
import type { CrawlRow } from '../store/rows.ts';

export class Limits {
  private readonly options: CrawlOptions;
  private readonly budgetReserve: BudgetReserve;
  private readonly pageCost: number;

  constructor(options: CrawlOptions, budgetReserve: BudgetReserve) {
    this.options = options;
    this.budgetReserve = budgetReserve;
    this.pageCost = pageCost(options);
  }

  reached(pages: number, { bytes, credits, activeMs }: CrawlRow): StopCause | undefined {
    const {
      maxPages,
      maxBytes = Infinity,
      maxCredits = Infinity,
      maxTimeMs = Infinity,
    } = this.options;
    if (pages >= maxPages) return 'limit';
    if (bytes >= maxBytes) return 'bytes';
    if (credits + this.pageCost > maxCredits) return 'credits';
    if (this.budgetReserve.isExhausted(credits, this.pageCost)) return 'budget';
    return activeMs >= maxTimeMs ? 'time' : undefined;
  }

  /** Whether one more request may start in addition to the running ones. */
  hasRoom(pages: number, credits: number, underWay: number): boolean {
    const { maxPages, maxCredits = Infinity } = this.options;
    const left = Math.min(maxCredits - credits, this.budgetReserve.left(credits));
    return pages + underWay < maxPages && (underWay + 1) * this.pageCost <= left;
  }
}

/** The maximum price of one page in credits. */
export function pageCost({
  render,
  actions,
  formats,
}: Pick<CrawlOptions, 'render' | 'actions' | 'formats'>): number {
  const renders = render !== 'never' || actions !== undefined || formats.includes('screenshot');
  return creditTable.crawlPage + (renders ? creditTable.renderedPage : 0);
}
