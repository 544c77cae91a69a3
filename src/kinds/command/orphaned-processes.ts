// Tracks processes that ended commands left running (`server &`). Nothing waits for them, but they still print into the
// job's log, so the server and the guard enforce the same output limits until they exit.
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { MonitoredAttempt } from './monitored-attempt.ts';
import { bootId, type Identity } from '../../runtime/process-identity.ts';
import { LaunchFolder } from './process/folder.ts';
import { killTree } from './process/kill.ts';
import { keptBytes } from './process/limits.ts';
import type { Registered, Registry } from './process/registry.ts';
import { groupExists, type Snapshot } from './process/tree.ts';

interface OrphanedProcessesOptions {
  registry: Registry;
  clock: Clock;
  log: Log;
  graceMs: number;
  /** Called when the last process has exited: the total output of the attempt, and how much was printed after its end. */
  onExit(attemptId: string, bytes: number, grown: number): void;
}

export type LimitedAttempt = Pick<
  MonitoredAttempt,
  'attemptId' | 'folder' | 'outPath' | 'maxOutputBytes' | 'ring' | 'split' | 'end'
>;

interface OrphanedProcess extends LimitedAttempt {
  wrapper: Identity;
  /** Output before the attempt ended. It is counted with the ended jobs. */
  bytesBefore: number;
}

export class OrphanedProcesses {
  private readonly options: OrphanedProcessesOptions;
  private readonly orphans = new Map<string, OrphanedProcess>();
  /** Ended attempts with an empty process group. The next snapshot is searched for processes that left the group. */
  private unsearched: OrphanedProcess[] = [];

  constructor(options: OrphanedProcessesOptions) {
    this.options = options;
    for (const entry of options.registry.list()) this.restore(entry);
  }

  get size(): number {
    return this.orphans.size;
  }

  /** True if processes must be searched in the next snapshot. */
  get needsSnapshot(): boolean {
    return this.orphans.size > 0 || this.unsearched.length > 0;
  }

  has(attemptId: string): boolean {
    return this.orphans.has(attemptId);
  }

  values(): Iterable<OrphanedProcess> {
    return this.orphans.values();
  }

  /** Called when an attempt has ended with this much output. */
  add(attempt: MonitoredAttempt, bytesBefore: number): void {
    const { wrapper } = attempt;
    if (!wrapper || process.platform !== 'linux') return;
    // Output before the end may already exceed the limit. It is not a reason to end processes that print nothing more.
    const maxOutputBytes = Math.max(attempt.maxOutputBytes, bytesBefore);
    const orphan = this.toOrphan({ ...attempt, wrapper, maxOutputBytes, bytesBefore });
    if (groupExists(wrapper.pid)) this.track(orphan);
    else this.unsearched.push(orphan);
  }

  /** Returns the attempts to search for in a snapshot that starts after this call. */
  takeUnsearched(): OrphanedProcess[] {
    const { unsearched } = this;
    this.unsearched = [];
    return unsearched;
  }

  update(now: Snapshot, unsearched: readonly OrphanedProcess[]): void {
    for (const one of this.orphans.values())
      if (now.members(treeOf(one)).length === 0) this.drop(one);
    for (const one of unsearched) {
      const { folder: _folder, ...marked } = treeOf(one);
      if (now.members(marked).length > 0) this.track(one);
    }
  }

  private restore(entry: Registered): void {
    const folder = new LaunchFolder(entry.folder);
    const claim = folder.readClaim();
    if (!entry.isOrphaned || claim.state !== 'claimed' || claim.identity.bootId !== bootId())
      return;
    const { attemptId, maxOutputBytes, ring } = entry;
    this.orphans.set(
      attemptId,
      this.toOrphan({
        ...{ attemptId, folder, ring, maxOutputBytes: maxOutputBytes ?? Infinity },
        ...{ outPath: folder.out, split: true, wrapper: claim.identity },
        bytesBefore: keptBytes(folder),
      }),
    );
  }

  private track(orphan: OrphanedProcess): void {
    const { attemptId, folder, maxOutputBytes, ring } = orphan;
    this.orphans.set(attemptId, orphan);
    const noLimits = { deadlineAt: null, maxAloneMs: null, registeredAt: 0 };
    const entry = { attemptId, folder: folder.path, maxOutputBytes, ring, isOrphaned: true };
    this.options.registry.add({ ...entry, ...noLimits });
  }

  private drop({ attemptId, folder, bytesBefore }: OrphanedProcess): void {
    const { registry, onExit } = this.options;
    this.orphans.delete(attemptId);
    registry.remove(attemptId);
    const bytes = Math.max(keptBytes(folder), bytesBefore);
    onExit(attemptId, bytes, bytes - bytesBefore);
  }

  private toOrphan(orphan: Omit<OrphanedProcess, 'end'>): OrphanedProcess {
    const { clock, log, graceMs } = this.options;
    const { attemptId } = orphan;
    let ending = false;
    const end = (reason: string) => {
      if (ending) return;
      ending = true;
      log.warn('processes left by a command exceeded the output limit and were ended', {
        attemptId,
        reason,
      });
      void killTree(treeOf(orphan), { clock, graceMs }).catch(() => {});
    };
    return { ...orphan, end };
  }
}

const treeOf = ({
  wrapper,
  attemptId,
  folder,
}: Pick<OrphanedProcess, 'wrapper' | 'attemptId' | 'folder'>) => ({
  wrapper,
  mark: attemptId,
  folder: folder.path,
  groupGone: true,
});
