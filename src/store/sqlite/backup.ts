// Copies the database while it is in use, and checks the backup file for a restore. The copy is written to a temporary
// file and renamed when complete. An existing file is replaced only if it is a backup.
import { closeSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { backup, type DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import { openDatabase } from './open.ts';

export async function writeBackup(db: DatabaseSync, path: string): Promise<void> {
  const temporary = `${path}.part`;
  let isCreated = false;
  try {
    requireReplaceable(db, path);
    rmSync(temporary, { force: true });
    // The backup contains everything, so only its owner may read it.
    closeSync(openSync(temporary, 'wx', 0o600));
    isCreated = true;
    await backup(db, temporary);
    renameSync(temporary, path);
  } catch (error) {
    if (isCreated) rmSync(temporary, { force: true });
    if (error instanceof AppError) throw error;
    throw new AppError(
      'invalidInput',
      `Cannot write the backup ${path}: ${(error as Error).message}.`,
      {
        hint: 'Choose a file in an existing folder that has free space and that the server can write to.',
        cause: error,
      },
    );
  }
}

/** Throws unless the file is an intact Errand database. Opening it may create files next to it. */
export function checkBackup(path: string): void {
  const db = openDatabase(path);
  try {
    const known = db.prepare("SELECT 1 FROM migrations WHERE id = 'jobs/1'").get();
    if (!known) throw new Error('it belongs to another program');
  } finally {
    db.close();
  }
}

function requireReplaceable(db: DatabaseSync, path: string): void {
  const existing = statSync(path, { throwIfNoEntry: false });
  if (!existing) return;
  const own = statSync(db.location()!);
  const isOwn = existing.ino === own.ino && existing.dev === own.dev;
  if (!isOwn && (existing.size === 0 || readHeader(path) === header)) return;
  throw new AppError('invalidInput', `${path} already exists and is not a backup.`, {
    hint: 'Choose a new file name, or an earlier backup to replace.',
  });
}

const header = 'SQLite format 3\0';

function readHeader(path: string): string {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(header.length);
    readSync(file, bytes);
    return bytes.toString('latin1');
  } finally {
    closeSync(file);
  }
}
