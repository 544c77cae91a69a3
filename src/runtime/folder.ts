// Creates folders that only their owner can access.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AppError } from '../errors.ts';

/**
 * Replaces mkdir with `recursive`, which never returns for paths like /proc/x: the system reports that the path does not
 * exist, and mkdir retries forever.
 */
export function createFolder(path: string): void {
  if (tryCreate(path)) return;
  if (!existsSync(dirname(path))) createFolder(dirname(path));
  // Another process may have created the parent in the meantime.
  if (!tryCreate(path)) throw new Error(`cannot create the folder ${path}`);
}

/** Returns false if the parent does not exist. */
function tryCreate(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return false;
    if (code !== 'EEXIST') throw error;
  }
  return true;
}

/** Rejects folders like /tmp as a home: making them private would lock out everybody else. */
export function rejectShared(path: string): void {
  if (!isShared(path)) return;
  throw new AppError('unavailable', `${path} is a shared folder and cannot be a home.`, {
    hint: `Use a folder inside it: ERRAND_HOME=${join(path, 'errand')}.`,
  });
}

/** Whether everybody can create files in the folder, as in /tmp. */
export function isShared(path: string): boolean {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & sharedBits) === sharedBits;
}

/** Writable for others, and sticky. */
const sharedBits = 0o1002;
