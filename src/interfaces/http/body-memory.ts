// Limits the memory that request bodies use: one budget for all callers without a key, and one per key. A request that
// exceeds its key's budget waits until earlier requests of that key are done. Without a key it is rejected.
import { AppError } from '../../errors.ts';
import type { HttpLimits } from './settings.ts';

type BodyLimits = Pick<HttpLimits, 'maxAnonymousBodyBytes' | 'maxAnonymousBytes' | 'maxKeyBytes'>;

interface Account {
  used: number;
  waiting: { bytes: number; admit(): void }[];
}

export class BodyMemory {
  private readonly limits: BodyLimits;
  private readonly keys = new Map<string, Account>();
  private anonymous = 0;

  constructor(limits: BodyLimits) {
    this.limits = limits;
  }

  /** Reserves memory for a body; returns a function that releases it. */
  async reserve(key: string | undefined, bytes: number, signal: AbortSignal): Promise<() => void> {
    if (bytes === 0) return () => {};
    return key === undefined ? this.reserveAnonymous(bytes) : this.reserveFor(key, bytes, signal);
  }

  private reserveAnonymous(bytes: number): () => void {
    const max = this.limits.maxAnonymousBytes;
    if (this.anonymous + bytes > max)
      throw new AppError('limitExceeded', 'Too much request data is being sent without a key.', {
        hint: 'Send a key, or try again later. The limit is the setting `http.maxAnonymousBytes`.',
        data: { limit: 'http.maxAnonymousBytes', retryAfterMs: 1000 },
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
        const entry = { bytes, admit };
        waiting.push(entry);
        // A client that disconnects leaves the queue; the check below then rejects its request.
        signal.addEventListener('abort', () => {
          const at = waiting.indexOf(entry);
          if (at >= 0) waiting.splice(at, 1);
          admit();
        });
      });
      if (signal.aborted) throw new AppError('invalidInput', 'The client disconnected.');
    } else account.used += bytes;
    return once(() => this.release(key, account, bytes));
  }

  private release(key: string, account: Account, bytes: number): void {
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

  /** A key with no body in memory may always send one, whatever its size: the route limits it. */
  private fits({ used }: Account, bytes: number): boolean {
    return used === 0 || used + bytes <= this.limits.maxKeyBytes;
  }
}

function once(release: () => void): () => void {
  let isReleased = false;
  return () => {
    if (isReleased) return;
    isReleased = true;
    release();
  };
}
