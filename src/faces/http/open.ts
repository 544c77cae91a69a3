// How many of something one holder (a key, an address) may have open at the same time.
import { AppError } from '../../errors.ts';

export class Open {
  private readonly max: number;
  private readonly setting: string;
  private readonly counts = new Map<string, number>();

  constructor(max: number, setting: string) {
    this.max = max;
    this.setting = setting;
  }

  /** Answers what takes it off the count again. */
  add(holder: string): () => void {
    const count = this.counts.get(holder) ?? 0;
    if (count >= this.max)
      throw new AppError('limitExceeded', `${this.max} of these are open already.`, {
        hint: `Close some first; the setting \`${this.setting}\` is the limit.`,
        data: { limit: this.setting, retryAfterMs: 1000 },
      });
    this.counts.set(holder, count + 1);
    return () => this.remove(holder);
  }

  private remove(holder: string): void {
    const count = this.counts.get(holder)! - 1;
    if (count === 0) this.counts.delete(holder);
    else this.counts.set(holder, count);
  }
}
