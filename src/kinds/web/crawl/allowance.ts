// What a crawl may still spend of its owner's budget: credits that are kept for it, some at a time, so that it stops at the
// last one however fast it is and whoever else spends meanwhile.
import type { Clock } from '../../../runtime/clock.ts';

const lookEveryMs = 2000;
/** Enough for a moment of a fast crawl; what is left in the end goes back. */
const creditsAtOnce = 200;

/** A crawl that spent nothing for so long (paused, told to wait) may have lost what was kept for it: it asks anew. */
const idleMsMax = 300_000;

/** `anew`: what was kept before is given back first. */
type Hold = (credits: number, anew: boolean) => Promise<number>;

export class Allowance {
  private readonly clock: Clock;
  private readonly hold: Hold;
  private lookedAt = 0;
  private spent = -1;
  private spentAt = 0;
  /** As a sum of the crawl's own credits; undefined: not asked yet. */
  private most: number | undefined;
  /** There was less than was asked for. */
  private isLast = false;

  constructor(clock: Clock, hold: Hold) {
    this.clock = clock;
    this.hold = hold;
  }

  /** `spent` must be what is written down, or the same credit would count twice. */
  async look(spent: number): Promise<void> {
    const now = this.clock.now();
    const anew = this.isIdle(spent, now);
    const isEnough = this.most !== undefined && this.most - spent >= creditsAtOnce / 2;
    if (!anew && (isEnough || (this.isLast && now - this.lookedAt < lookEveryMs))) return;
    this.lookedAt = now;
    const more = await this.hold(creditsAtOnce, anew);
    this.isLast = more < creditsAtOnce;
    this.most = (anew ? spent : (this.most ?? spent)) + more;
  }

  private isIdle(spent: number, now: number): boolean {
    const isIdle = spent === this.spent && now - this.spentAt > idleMsMax;
    if (spent !== this.spent || isIdle) this.spentAt = now;
    this.spent = spent;
    return isIdle;
  }

  left(spent: number): number {
    return (this.most ?? Infinity) - spent;
  }

  /** Not even one page of this price can be paid for, and there was no more to be had. */
  isOut(spent: number, price: number): boolean {
    return this.isLast && this.left(spent) < price;
  }
}
