// Whether a process is there, as the kernel says.
import { readFileSync } from 'node:fs';

/** Gone, or dead and only not yet reaped. */
export function isGone(pid: string | number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}
