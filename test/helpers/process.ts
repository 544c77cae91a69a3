// Processes of tests: whether one is there, as the kernel says, and waiting that ends by itself.
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Gone, or dead and only not yet reaped. */
export function isGone(pid: string | number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}

/** A shell line that waits for a file; it also ends with the folder, so that a failed test leaves nothing running. */
export const awaitFile = (path: string): string =>
  `until [ -e ${path} ] || [ ! -d ${dirname(path)} ]; do sleep 0.05; done`;
