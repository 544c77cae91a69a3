// Reads small files in /proc. They report size 0, which makes the usual way of reading a file twice as expensive, and a
// server with a thousand jobs reads thousands of them in one pass.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

const buffer = Buffer.allocUnsafeSlow(65_536);

/** Returns the text, or undefined if the process has exited or cannot be inspected. */
export function procText(path: string): string | undefined {
  try {
    const fd = openSync(path, 'r');
    try {
      // The kernel returns some files in several pieces.
      let length = 0;
      for (let n = -1; n !== 0 && length < buffer.length; length += n)
        n = readSync(fd, buffer, length, buffer.length - length, null);
      if (length === buffer.length) return readFileSync(path, 'latin1');
      return buffer.toString('latin1', 0, length);
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

/**
 * Whether a process forked from the wrapper has not executed its own program yet. Until then it has the wrapper's signal
 * handlers, and a signal is lost. False where the system has no /proc.
 */
export function isForkOf(pid: number, wrapperPid: number): boolean {
  const wrapper = procText(`/proc/${wrapperPid}/cmdline`);
  return wrapper !== undefined && procText(`/proc/${pid}/cmdline`) === wrapper;
}
