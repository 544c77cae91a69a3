// Token buckets, one per key or address: a burst first, then a steady rate. Full buckets are deleted, so that a scan from
// many addresses cannot exhaust memory.
import type { Clock } from '../../runtime/clock.ts';

interface Rate {
  /** Calls per second over time; 0 turns the limit off. */
  perSecond: number;
  /** Consecutive calls allowed after a pause. */
  burst: number;
}

const maxBuckets = 10_000;

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

  /** Takes one token; returns 0, or the milliseconds until the next token. */
  take(name: string): number {
    const { perSecond, burst } = this.rate;
    if (perSecond <= 0) return 0;
    const now = this.clock.now();
    let bucket = this.buckets.get(name);
    if (!bucket) {
      if (this.buckets.size >= maxBuckets) this.deleteFull(now);
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

  /** How many calls are possible right now; undefined without a limit. */
  left(name: string): number | undefined {
    if (this.rate.perSecond <= 0) return undefined;
    return Math.floor(this.buckets.get(name)?.tokens ?? this.rate.burst);
  }

  private deleteFull(now: number): void {
    const { perSecond, burst } = this.rate;
    for (const [name, bucket] of this.buckets)
      if (bucket.tokens + ((now - bucket.at) * perSecond) / 1000 >= burst)
        this.buckets.delete(name);
    // None are full: delete the oldest. This only resets their limit.
    for (const name of this.buckets.keys()) {
      if (this.buckets.size < maxBuckets / 2) break;
      this.buckets.delete(name);
    }
  }
}
