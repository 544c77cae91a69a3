// Process helpers: whether a process is alive according to the kernel, and shell lines that wait without leaking.
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Gone, or a zombie that is not reaped yet. */
export function isGone(pid: string | number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}

/** A shell line that waits for a file. It also ends when the folder is removed, so a failed test leaves nothing running. */
export const awaitFile = (path: string): string =>
  `until [ -e ${path} ] || [ ! -d ${dirname(path)} ]; do sleep 0.05; done`;
