// A copy of the database while it is written to, and what a restore asks of one. It is made beside its place and put there whole: a backup that was there
// before stays until then, and nothing but a backup is ever replaced.
import { closeSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { backup, type DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import { openDatabase } from './open.ts';

export async function writeBackup(db: DatabaseSync, path: string): Promise<void> {
  const part = `${path}.part`;
  let isMade = false;
  try {
    refuseOthers(db, path);
    rmSync(part, { force: true });
    // A copy of everything is nobody else's to read, wherever it lies.
    closeSync(openSync(part, 'wx', 0o600));
    isMade = true;
    await backup(db, part);
    renameSync(part, path);
  } catch (error) {
    if (isMade) rmSync(part, { force: true });
    if (error instanceof AppError) throw error;
    throw new AppError('invalidInput', `${path} cannot be written: ${(error as Error).message}.`, {
      hint: 'Name a file in a folder that exists, has room, and that the server may write to.',
      cause: error,
    });
  }
}

/** Throws unless the file is a sound database of ours. Opening it may leave files beside it. */
export function checkBackup(path: string): void {
  const db = openDatabase(path);
  try {
    const known = db.prepare("SELECT 1 FROM migrations WHERE id = 'jobs/1'").get();
    if (!known) throw new Error('it is the database of another program');
  } finally {
    db.close();
  }
}

function refuseOthers(db: DatabaseSync, path: string): void {
  const there = statSync(path, { throwIfNoEntry: false });
  if (!there) return;
  const own = statSync(db.location()!);
  const isOwn = there.ino === own.ino && there.dev === own.dev;
  if (!isOwn && (there.size === 0 || startOf(path) === header)) return;
  throw new AppError('invalidInput', `${path} is there already, and is no backup.`, {
    hint: 'Name a new file, or an earlier backup, which is replaced.',
  });
}

const header = 'SQLite format 3\0';

function startOf(path: string): string {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(header.length);
    readSync(file, bytes);
    return bytes.toString('latin1');
  } finally {
    closeSync(file);
  }
}
