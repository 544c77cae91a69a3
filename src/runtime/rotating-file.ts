// A log file with a size limit: at the limit it is renamed to <name>.1, replacing the previous one, and a new file begins.
import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs';

const maxBytes = 10 * 1024 * 1024;

export function createRotatingFile(path: string): (line: string) => void {
  let fd = openSync(path, 'a', 0o600);
  let bytes = fstatSync(fd).size;
  return (line) => {
    if (bytes > maxBytes) {
      closeSync(fd);
      renameSync(path, `${path}.1`);
      fd = openSync(path, 'a', 0o600);
      bytes = 0;
    }
    bytes += writeSync(fd, line);
  };
}
