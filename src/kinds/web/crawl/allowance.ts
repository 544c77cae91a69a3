// What a crawl may still spend of its owner's budget. What others spend meanwhile is looked up now and then; what the
// crawl itself spends is known, so that it stops at the last credit however fast it is.
import type { Clock } from '../../../runtime/clock.ts';

const lookEveryMs = 2000;

export class Allowance {
  private readonly clock: Clock;
  private readonly creditsLeft: () => Promise<number>;
  private lookedAt = 0;
  /** As a sum of the crawl's own credits. */
  private most = Infinity;

  constructor(clock: Clock, creditsLeft: () => Promise<number>) {
    this.clock = clock;
    this.creditsLeft = creditsLeft;
  }

  /** `spent` must be what is written down, or the same credit would count twice. */
  async look(spent: number): Promise<void> {
    const now = this.clock.now();
    if (now - this.lookedAt < lookEveryMs) return;
    this.lookedAt = now;
    this.most = spent + (await this.creditsLeft());
  }

  left(spent: number): number {
    return this.most - spent;
  }
}
