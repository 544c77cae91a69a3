// How many bytes of request bodies may be in memory: for all callers without a key together, and for each key. A key that
// sends more waits until its own earlier requests are answered; without a key the request is refused.
import { AppError } from '../../errors.ts';
import type { HttpLimits } from './settings.ts';

export type BodyLimits = Pick<
  HttpLimits,
  'anonymousBodyBytesMax' | 'anonymousBytesMax' | 'keyBytesMax'
>;

interface Account {
  used: number;
  waiting: { bytes: number; admit(): void }[];
}

export class Bodies {
  private readonly limits: BodyLimits;
  private readonly keys = new Map<string, Account>();
  private anonymous = 0;

  constructor(limits: BodyLimits) {
    this.limits = limits;
  }

  /** Answers what frees the room again. */
  async reserve(key: string | undefined, bytes: number, signal: AbortSignal): Promise<() => void> {
    if (bytes === 0) return () => {};
    return key === undefined ? this.reserveAnonymous(bytes) : this.reserveFor(key, bytes, signal);
  }

  private reserveAnonymous(bytes: number): () => void {
    const max = this.limits.anonymousBytesMax;
    if (this.anonymous + bytes > max)
      throw new AppError('limitExceeded', 'Too many requests without a key are being sent.', {
        hint: 'Send a key, or try again; the setting `http.anonymousBytesMax` is the limit.',
        data: { limit: 'http.anonymousBytesMax', retryAfterMs: 1000 },
      });
    this.anonymous += bytes;
    return once(() => (this.anonymous -= bytes));
  }

  private async reserveFor(key: string, bytes: number, signal: AbortSignal): Promise<() => void> {
    let account = this.keys.get(key);
    if (!account) this.keys.set(key, (account = { used: 0, waiting: [] }));
    const { waiting } = account;
    if (waiting.length > 0 || !this.fits(account, bytes)) {
      await new Promise<void>((admit) => {
        const one = { bytes, admit };
        waiting.push(one);
        // Whoever left is admitted too, finds that out, and frees the room again.
        signal.addEventListener('abort', () => {
          const at = waiting.indexOf(one);
          if (at >= 0) waiting.splice(at, 1);
          admit();
        });
      });
      if (signal.aborted) throw new AppError('invalidInput', 'The client left.');
    } else account.used += bytes;
    return once(() => this.free(key, account, bytes));
  }

  private free(key: string, account: Account, bytes: number): void {
    account.used -= bytes;
    for (
      let [next] = account.waiting;
      next && this.fits(account, next.bytes);
      [next] = account.waiting
    ) {
      account.waiting.shift();
      account.used += next.bytes;
      next.admit();
    }
    if (account.used === 0 && account.waiting.length === 0) this.keys.delete(key);
  }

  /** A single body of any size that its route allows always fits. */
  private fits({ used }: Account, bytes: number): boolean {
    return used === 0 || used + bytes <= this.limits.keyBytesMax;
  }
}

function once(free: () => void): () => void {
  let isFree = false;
  return () => {
    if (isFree) return;
    isFree = true;
    free();
  };
}
