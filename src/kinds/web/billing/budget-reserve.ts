// Reserves credits of the owner's budget for a crawl, a batch at a time. A crawl can only spend reserved credits, so it
// never exceeds the budget, however fast it is and whatever other jobs spend concurrently.
import type { Clock } from '../../../runtime/clock.ts';

const refreshEveryMs = 2000;
/** Credits per reservation. The crawl returns unused credits when it ends. */
const batchCredits = 200;

/** After this time without spending (paused, rate limited), the reservation may have expired and is renewed. */
const maxIdleMs = 300_000;

/** `renew` releases the previous reservation first. Resolves to the number of reserved credits. */
type Reservation = (credits: number, renew: boolean) => Promise<number>;

export class BudgetReserve {
  private readonly clock: Clock;
  private readonly hold: Reservation;
  private refreshedAt = 0;
  private spent = -1;
  private spentAt = 0;
  /** Total credits that the crawl may have spent. Undefined before the first reservation. */
  private creditLimit: number | undefined;
  /** The last reservation got fewer credits than requested. */
  private isBudgetUsedUp = false;

  constructor(clock: Clock, hold: Reservation) {
    this.clock = clock;
    this.hold = hold;
  }

  /** Reserves more credits when few are left. `spent` must be the committed value, or a credit would count twice. */
  async refresh(spent: number): Promise<void> {
    const now = this.clock.now();
    const renew = this.isIdle(spent, now);
    const isEnough = this.creditLimit !== undefined && this.creditLimit - spent >= batchCredits / 2;
    if (!renew && (isEnough || (this.isBudgetUsedUp && now - this.refreshedAt < refreshEveryMs)))
      return;
    this.refreshedAt = now;
    const more = await this.hold(batchCredits, renew);
    this.isBudgetUsedUp = more < batchCredits;
    this.creditLimit = (renew ? spent : (this.creditLimit ?? spent)) + more;
  }

  private isIdle(spent: number, now: number): boolean {
    const isIdle = spent === this.spent && now - this.spentAt > maxIdleMs;
    if (spent !== this.spent || isIdle) this.spentAt = now;
    this.spent = spent;
    return isIdle;
  }

  left(spent: number): number {
    return (this.creditLimit ?? Infinity) - spent;
  }

  /** The reserved credits do not cover one page of this price, and the budget has no more. */
  isExhausted(spent: number, price: number): boolean {
    return this.isBudgetUsedUp && this.left(spent) < price;
  }
}
