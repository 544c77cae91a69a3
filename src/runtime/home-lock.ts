// The lock of a home: an exclusively locked SQLite file, so that it vanishes with its process, however that ends.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

export const lockFile = (home: string): string => join(home, 'lock');

/** Somebody who only looks whether the home is locked holds it for a moment. */
const lookedAtMs = 200;

/** `takenBecause`: another process has the home. */
export function takeLock(home: string): { release(): void } | { takenBecause: unknown } {
  const file = lockFile(home);
  // Created here, because what SQLite creates next to a file has the file's own mode.
  if (!existsSync(file)) writeFileSync(file, '', { mode: 0o600 });
  const db = new DatabaseSync(file, { timeout: lookedAtMs });
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    db.close();
    return { takenBecause: error };
  }
  return {
    release: () => {
      if (db.isOpen) db.close();
    },
  };
}

/** Whether a process has the home open. The lock tells the truth where a pid does not: in containers, after reboots. */
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
