// The log file of a worker, as its supervisor or relay manages it: records when the file grew, so that lines have
// timestamps, and truncates it above a limit. The writer appends, so truncating does not disturb it.
import { appendFileSync, copyFileSync, renameSync, statSync, truncateSync } from 'node:fs';

/** Above this size the file is truncated. Its content moves to one archive, which the next truncation replaces. */
export const maxLogBytes = 8 * 1024 * 1024;

export class LogFile {
  private readonly path: string;
  private size = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** Called about every half second. Returns the size. */
  tick(now: number): number {
    const size = sizeOf(this.path);
    if (size === this.size) return size;
    this.size = size;
    appendFileSync(`${this.path}.idx`, `${size} ${now}\n`, { mode: 0o600 });
    return size;
  }

  /** Returns true if the file was truncated. */
  cut(): boolean {
    if (this.size <= maxLogBytes) return false;
    copyFileSync(this.path, `${this.path}.1`);
    truncateSync(this.path, 0);
    renameSync(`${this.path}.idx`, `${this.path}.idx.1`);
    this.size = 0;
    return true;
  }
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
