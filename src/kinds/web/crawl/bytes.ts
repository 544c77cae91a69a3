// Enforces `maxBytes`. Response sizes are unknown in advance, so each visit gets a share before it starts, and all shares
// together never exceed the remaining bytes. A visit that exceeds its share is repeated with a larger one. When even all
// remaining bytes are too few, the crawl ends.
import { AppError } from '../../../errors.ts';

const minShare = 256 * 1024;
/** The remaining bytes are divided by this, so that about this many visits can run concurrently. */
const usualShares = 100;

export class ByteShare {
  readonly maxBytes: number;
  used = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** Runs one request within the share and `maxBytes`, whichever is smaller. */
  async spend<T extends { body: Uint8Array }>(
    maxBytes: number,
    ask: (maxBytes: number) => Promise<T>,
  ): Promise<T> {
    const left = this.maxBytes - this.used;
    try {
      const response = await ask(Math.min(maxBytes, left));
      this.used += response.body.byteLength;
      return response;
    } catch (error) {
      const isLarge = error instanceof AppError && error.code === 'egressTooLarge';
      throw isLarge && left < maxBytes ? new ShareExceeded() : error;
    }
  }
}

export class ShareExceeded extends Error {}

export class ByteBudget {
  private readonly maxBytes: number;
  private readonly shares = new Set<ByteShare>();
  private used: number;
  private largest = minShare;
  /** The next response does not fit into the remaining bytes. */
  isFull = false;

  constructor(maxBytes: number, used: number) {
    this.maxBytes = maxBytes;
    this.used = used;
  }

  /** Undefined when running visits hold the remaining bytes. */
  share(): ByteShare | undefined {
    const left = this.left;
    const usual = Math.max(this.largest, left / usualShares);
    if (left <= 0 || (this.shares.size > 0 && left < usual)) return undefined;
    const share = new ByteShare(left < 2 * usual ? left : Math.floor(usual));
    this.shares.add(share);
    return share;
  }

  /** Returns a share and counts the bytes of its result. */
  settle(share: ByteShare, bytes: number): void {
    this.shares.delete(share);
    this.used += bytes;
  }

  /** The share was too small: later shares are larger. */
  refuse(share: ByteShare): void {
    this.shares.delete(share);
    this.largest = Math.max(this.largest, share.maxBytes * 2);
    this.isFull ||= share.maxBytes >= this.maxBytes - this.used;
  }

  private get left(): number {
    if (this.maxBytes === Infinity) return Infinity;
    let left = this.maxBytes - this.used;
    for (const share of this.shares) left -= share.maxBytes;
    return left;
  }
}
