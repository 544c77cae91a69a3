// Reads small files of /proc. They say they have no size, which makes the usual way of reading a file twice as dear; and
// with a thousand jobs thousands of them are read at once.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

const buffer = Buffer.allocUnsafeSlow(65_536);

/** The text, or undefined when the process is gone or does not let us look. */
export function procText(path: string): string | undefined {
  try {
    const fd = openSync(path, 'r');
    try {
      // The kernel gives some of them piece by piece.
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
