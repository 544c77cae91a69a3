// What ended commands left running (`server &`). Nobody waits for it any more, but what it prints still goes into the
// job's log: so it is kept under the same caps, by the server and by the guard, until it is gone.
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Kept } from './keeper.ts';
import { bootId, type Identity } from './process/identity.ts';
import { LaunchFolder } from './process/folder.ts';
import { killTree } from './process/kill.ts';
import { keptBytes } from './process/limits.ts';
import type { Registered, Registry } from './process/registry.ts';
import { groupExists, type Snapshot } from './process/tree.ts';

export interface LeftoversOptions {
  registry: Registry;
  clock: Clock;
  log: Log;
  graceMs: number;
  /** The last of them is gone: what the attempt has on disk, and how much of it came after its end. */
  gone(attemptId: string, bytes: number, grown: number): void;
}

export type Capped = Pick<
  Kept,
  'attemptId' | 'folder' | 'outPath' | 'outputBytesMax' | 'ring' | 'split' | 'end'
>;

export interface Left extends Capped {
  wrapper: Identity;
  /** What was printed before the attempt ended; it is counted with the ended ones. */
  bytesBefore: number;
}

export class Leftovers {
  private readonly options: LeftoversOptions;
  private readonly left = new Map<string, Left>();
  /** Ended, and nothing is left in the group: who left that, too, is looked for with the next snapshot. */
  private ended: Left[] = [];

  constructor(options: LeftoversOptions) {
    this.options = options;
    for (const entry of options.registry.list()) this.know(entry);
  }

  get size(): number {
    return this.left.size;
  }

  /** Something has to be looked for among the processes. */
  get asks(): boolean {
    return this.left.size > 0 || this.ended.length > 0;
  }

  has(attemptId: string): boolean {
    return this.left.has(attemptId);
  }

  values(): Iterable<Left> {
    return this.left.values();
  }

  /** An attempt is over, with so many bytes. */
  add(kept: Kept, bytesBefore: number): void {
    const { wrapper } = kept;
    if (!wrapper || process.platform !== 'linux') return;
    // Who printed too much before, and prints no more, is let be.
    const outputBytesMax = Math.max(kept.outputBytesMax, bytesBefore);
    const left = this.leftOf({ ...kept, wrapper, outputBytesMax, bytesBefore });
    if (groupExists(wrapper.pid)) this.keep(left);
    else this.ended.push(left);
  }

  /** Those that are to be looked for in a snapshot which begins after this call. */
  takeEnded(): Left[] {
    const { ended } = this;
    this.ended = [];
    return ended;
  }

  look(now: Snapshot, ended: readonly Left[]): void {
    for (const one of this.left.values()) if (now.members(treeOf(one)).length === 0) this.drop(one);
    for (const one of ended) {
      const { folder: _folder, ...marked } = treeOf(one);
      if (now.members(marked).length > 0) this.keep(one);
    }
  }

  private know(entry: Registered): void {
    const folder = new LaunchFolder(entry.folder);
    const claim = folder.readClaim();
    if (!entry.left || claim.state !== 'claimed' || claim.identity.bootId !== bootId()) return;
    const { attemptId, outputBytesMax, ring } = entry;
    this.left.set(
      attemptId,
      this.leftOf({
        ...{ attemptId, folder, ring, outputBytesMax: outputBytesMax ?? Infinity },
        ...{ outPath: folder.out, split: true, wrapper: claim.identity },
        bytesBefore: keptBytes(folder),
      }),
    );
  }

  private keep(left: Left): void {
    const { attemptId, folder, outputBytesMax, ring } = left;
    this.left.set(attemptId, left);
    const nothing = { deadlineAt: null, aloneMsMax: null, registeredAt: 0 };
    const entry = { attemptId, folder: folder.path, outputBytesMax, ring, left: true };
    this.options.registry.add({ ...entry, ...nothing });
  }

  private drop({ attemptId, folder, bytesBefore }: Left): void {
    const { registry, gone } = this.options;
    this.left.delete(attemptId);
    registry.remove(attemptId);
    const bytes = Math.max(keptBytes(folder), bytesBefore);
    gone(attemptId, bytes, bytes - bytesBefore);
  }

  private leftOf(left: Omit<Left, 'end'>): Left {
    const { clock, log, graceMs } = this.options;
    const { attemptId } = left;
    let ending = false;
    const end = (reason: string) => {
      if (ending) return;
      ending = true;
      log.warn('what a command left running printed too much and is ended', { attemptId, reason });
      void killTree(treeOf(left), { clock, graceMs }).catch(() => {});
    };
    return { ...left, end };
  }
}

const treeOf = ({
  wrapper,
  attemptId,
  folder,
}: Pick<Left, 'wrapper' | 'attemptId' | 'folder'>) => ({
  wrapper,
  mark: attemptId,
  folder: folder.path,
  groupGone: true,
});
