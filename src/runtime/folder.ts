// A folder for its owner alone, with the folders above it.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AppError } from '../errors.ts';

/**
 * Like mkdir with `recursive`, which never comes back where a folder can be looked at but not made (/proc answers that the path
 * is not there, and it tries again for ever).
 */
export function makeFolder(path: string): void {
  if (makes(path)) return;
  if (!existsSync(dirname(path))) makeFolder(dirname(path));
  // Somebody else may have made what is above meanwhile.
  if (!makes(path)) throw new Error(`no folder can be made at ${path}`);
}

/** False: there is nothing to make it in. */
function makes(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return false;
    if (code !== 'EEXIST') throw error;
  }
  return true;
}

/** A folder like /tmp must not become ours: it would be closed to everybody else. */
export function refuseShared(path: string): void {
  if (!isShared(path)) return;
  throw new AppError('unavailable', `${path} is a folder for everybody and cannot be a home.`, {
    hint: `Name one within it: ERRAND_HOME=${join(path, 'errand')}.`,
  });
}

/** Whether everybody makes files there, like in /tmp. */
export function isShared(path: string): boolean {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & sharedBits) === sharedBits;
}

/** Writable for others, and sticky. */
const sharedBits = 0o1002;
