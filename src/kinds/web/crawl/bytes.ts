// The bytes of a crawl (`bytesMax`). Nobody knows how long an answer is before it is there, so each visit is given a share
// before it starts, and all shares together are never more than what is left. A visit that needs more than its share is
// made again with a larger one; when all that is left is too little for it, the crawl is over.
import { AppError } from '../../../errors.ts';

const shareMin = 256 * 1024;
/** Of what is left: so many visits may go on side by side as long as there is plenty. */
const sharesUsual = 100;

export class ByteShare {
  readonly bytesMax: number;
  taken = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** One answer out of the share, whatever else may limit it. */
  async spend<T extends { body: Uint8Array }>(
    bytesMax: number,
    ask: (bytesMax: number) => Promise<T>,
  ): Promise<T> {
    const left = this.bytesMax - this.taken;
    try {
      const answer = await ask(Math.min(bytesMax, left));
      this.taken += answer.body.byteLength;
      return answer;
    } catch (error) {
      const isLarge = error instanceof AppError && error.code === 'egressTooLarge';
      throw isLarge && left < bytesMax ? new ShareUsedUp() : error;
    }
  }
}

export class ShareUsedUp extends Error {}

export class ByteRoom {
  private readonly bytesMax: number;
  private readonly shares = new Set<ByteShare>();
  private used: number;
  private largest = shareMin;
  /** What comes next is longer than all that is left. */
  isFull = false;

  constructor(bytesMax: number, used: number) {
    this.bytesMax = bytesMax;
    this.used = used;
  }

  /** Undefined: none beside those under way. */
  share(): ByteShare | undefined {
    const left = this.left;
    const wish = Math.max(this.largest, left / sharesUsual);
    if (left <= 0 || (this.shares.size > 0 && left < wish)) return undefined;
    const share = new ByteShare(left < 2 * wish ? left : Math.floor(wish));
    this.shares.add(share);
    return share;
  }

  /** What it took counts; without a result it does not. */
  settle(share: ByteShare, bytes: number): void {
    this.shares.delete(share);
    this.used += bytes;
  }

  /** It was too little. */
  refuse(share: ByteShare): void {
    this.shares.delete(share);
    this.largest = Math.max(this.largest, share.bytesMax * 2);
    this.isFull ||= share.bytesMax >= this.bytesMax - this.used;
  }

  private get left(): number {
    if (this.bytesMax === Infinity) return Infinity;
    let left = this.bytesMax - this.used;
    for (const share of this.shares) left -= share.bytesMax;
    return left;
  }
}
