// A log file that stays small: at its limit it becomes <name>.1 (replacing the one before) and a new one begins.
import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs';

const bytesMax = 10 * 1024 * 1024;

export function createRotatingFile(path: string): (line: string) => void {
  let fd = openSync(path, 'a', 0o600);
  let bytes = fstatSync(fd).size;
  return (line) => {
    if (bytes > bytesMax) {
      closeSync(fd);
      renameSync(path, `${path}.1`);
      fd = openSync(path, 'a', 0o600);
      bytes = 0;
    }
    bytes += writeSync(fd, line);
  };
}
