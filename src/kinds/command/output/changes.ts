// Waits for file changes reported by the kernel. If that is not possible, only the timeout ends the wait.
import { watch, type FSWatcher } from 'node:fs';
import type { Clock } from '../../../runtime/clock.ts';

/** Changes come in bursts: a screen is drawn with many small writes. */
const burstMs = 8;

export class FileChanges implements Disposable {
  private readonly watchers = new Map<string, FSWatcher>();
  private isChanged = false;
  private wake = () => {};

  /** Called before the files are read, so that later changes are not missed. */
  watch(paths: readonly string[]): void {
    this.isChanged = false;
    for (const path of paths) {
      if (path === '' || this.watchers.has(path)) continue;
      try {
        const watcher = watch(path, { persistent: false }, () => this.note());
        watcher.on('error', () => this.note());
        this.watchers.set(path, watcher);
      } catch {
        // Polling finds the change.
      }
    }
  }

  /** Resolves on a change since the last `watch`, after at most `ms`. */
  async changed(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
    const change = new AbortController();
    this.wake = () => change.abort();
    if (!this.isChanged) await clock.sleep(ms, AbortSignal.any([signal, change.signal]));
    await clock.sleep(burstMs, signal);
  }

  [Symbol.dispose](): void {
    for (const watcher of this.watchers.values()) watcher.close();
  }

  private note(): void {
    this.isChanged = true;
    this.wake();
  }
}
