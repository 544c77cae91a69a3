// Limits how many calls or streams a holder (a key or an address) may have open concurrently.
import { AppError } from '../../errors.ts';

export class OpenCounter {
  private readonly max: number;
  private readonly setting: string;
  private readonly counts = new Map<string, number>();

  constructor(max: number, setting: string) {
    this.max = max;
    this.setting = setting;
  }

  /** Counts one more; returns a function that undoes it. Throws when the limit is reached. */
  add(holder: string): () => void {
    const count = this.counts.get(holder) ?? 0;
    if (count >= this.max)
      throw new AppError(
        'limitExceeded',
        `This caller already has ${this.max} open calls or streams.`,
        {
          hint: `Close some first. The limit is the setting \`${this.setting}\`.`,
          data: { limit: this.setting, retryAfterMs: 1000 },
        },
      );
    this.counts.set(holder, count + 1);
    return () => this.remove(holder);
  }

  private remove(holder: string): void {
    const count = this.counts.get(holder)! - 1;
    if (count === 0) this.counts.delete(holder);
    else this.counts.set(holder, count);
  }
}
