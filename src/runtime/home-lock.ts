// The home lock: an exclusively locked SQLite file. The system releases it when the process ends for any reason.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

export const lockFile = (home: string): string => join(home, 'lock');

/** `isLocked` in another process holds a shared lock for a moment. */
const waitMs = 200;

/** Returns `heldError` if another process holds the lock. */
export function acquireLock(home: string): { release(): void } | { heldError: unknown } {
  const file = lockFile(home);
  // Create the file here: files that SQLite creates next to it inherit its mode.
  if (!existsSync(file)) writeFileSync(file, '', { mode: 0o600 });
  const db = new DatabaseSync(file, { timeout: waitMs });
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    db.close();
    return { heldError: error };
  }
  return {
    release: () => {
      if (db.isOpen) db.close();
    },
  };
}

/** Whether a process has the home open. Unlike a pid, the lock is reliable in containers and after reboots. */
export function isLocked(home: string): boolean {
  const file = lockFile(home);
  if (!existsSync(file)) return false;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 0 });
    db.prepare('PRAGMA schema_version').get();
    return false;
  } catch (error) {
    // SQLITE_BUSY
    return ((error as { errcode?: number }).errcode ?? 0) % 256 === 5;
  } finally {
    db?.close();
  }
}
