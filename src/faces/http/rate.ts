// Token buckets, one per key or address: a burst at once, then a steady rate. Buckets that are full again are
// forgotten, so that a scan from many addresses cannot fill the memory.
import type { Clock } from '../../runtime/clock.ts';

export interface Rate {
  /** Calls per second over time; 0 turns the limit off. */
  perSecond: number;
  /** Calls at once after a pause. */
  burst: number;
}

const bucketsMax = 10_000;

interface Bucket {
  tokens: number;
  at: number;
}

export class Buckets {
  private readonly rate: Rate;
  private readonly clock: Clock;
  private readonly buckets = new Map<string, Bucket>();

  constructor(rate: Rate, clock: Clock) {
    this.rate = rate;
    this.clock = clock;
  }

  /** Takes one; answers 0, or how many milliseconds to wait for the next. */
  take(name: string): number {
    const { perSecond, burst } = this.rate;
    if (perSecond <= 0) return 0;
    const now = this.clock.now();
    let bucket = this.buckets.get(name);
    if (!bucket) {
      if (this.buckets.size >= bucketsMax) this.forget(now);
      this.buckets.set(name, (bucket = { tokens: burst, at: now }));
    }
    bucket.tokens = Math.min(
      burst,
      bucket.tokens + (Math.max(0, now - bucket.at) * perSecond) / 1000,
    );
    bucket.at = now;
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1000) / perSecond);
    bucket.tokens -= 1;
    return 0;
  }

  /** How many calls could be made at once now; undefined: as many as one likes. */
  left(name: string): number | undefined {
    if (this.rate.perSecond <= 0) return undefined;
    return Math.floor(this.buckets.get(name)?.tokens ?? this.rate.burst);
  }

  private forget(now: number): void {
    const { perSecond, burst } = this.rate;
    for (const [name, bucket] of this.buckets)
      if (bucket.tokens + ((now - bucket.at) * perSecond) / 1000 >= burst)
        this.buckets.delete(name);
    // All still in use: the oldest go, which only ever forgives them.
    for (const name of this.buckets.keys()) {
      if (this.buckets.size < bucketsMax / 2) break;
      this.buckets.delete(name);
    }
  }
}
