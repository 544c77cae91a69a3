// What a crawl may still spend of its owner's budget: credits that are kept for it, some at a time, so that it stops at the
// last one however fast it is and whoever else spends meanwhile.
import type { Clock } from '../../../runtime/clock.ts';

const lookEveryMs = 2000;
/** Enough for a moment of a fast crawl; what is left in the end goes back. */
const creditsAtOnce = 200;

export class Allowance {
  private readonly clock: Clock;
  private readonly hold: (credits: number) => Promise<number>;
  private lookedAt = 0;
  /** As a sum of the crawl's own credits; undefined: not asked yet. */
  private most: number | undefined;
  /** There was less than was asked for. */
  private isLast = false;

  constructor(clock: Clock, hold: (credits: number) => Promise<number>) {
    this.clock = clock;
    this.hold = hold;
  }

  /** `spent` must be what is written down, or the same credit would count twice. */
  async look(spent: number): Promise<void> {
    if (this.most !== undefined && this.most - spent >= creditsAtOnce / 2) return;
    const now = this.clock.now();
    if (this.isLast && now - this.lookedAt < lookEveryMs) return;
    this.lookedAt = now;
    const more = await this.hold(creditsAtOnce);
    this.isLast = more < creditsAtOnce;
    this.most = (this.most ?? spent) + more;
  }

  left(spent: number): number {
    return (this.most ?? Infinity) - spent;
  }

  /** Not even one page of this price can be paid for, and there was no more to be had. */
  isOut(spent: number, price: number): boolean {
    return this.isLast && this.left(spent) < price;
  }
}
