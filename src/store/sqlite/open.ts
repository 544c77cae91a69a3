// Opens a home's database file with durable settings and reports clearly why a file cannot be used.
import { chmodSync, existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';

/** In older versions, two writers can lose acknowledged commits (WAL reset bug). */
const minVersion = [3, 51, 3];

export function openDatabase(path: string): DatabaseSync {
  requireSafeVersion();
  const fresh = !existsSync(path);
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { timeout: 5000 });
    if (path !== ':memory:') chmodSync(path, 0o600);
    db.exec('PRAGMA journal_mode = WAL');
    db.exec('PRAGMA synchronous = FULL');
    db.exec('PRAGMA foreign_keys = ON');
    // Small on purpose: a commit that splits a page walks the whole cache (a 64 MB cache doubled the cost of a submit on
    // a large home), while a page outside the cache is one short read from the system's page cache.
    db.exec('PRAGMA cache_size = -2000');
    db.exec('PRAGMA journal_size_limit = 67108864');
    db.exec('PRAGMA wal_autocheckpoint = 4000');
  } catch (error) {
    throw openError(path, error);
  }
  if (!fresh) checkIntegrity(db, path);
  return db;
}

/** quick_check reads every page. On a large database it would delay the start by minutes, so it is limited by size. */
const maxCheckedBytes = 256 * 1024 * 1024;

function checkIntegrity(db: DatabaseSync, path: string): void {
  try {
    const { page_count: pages } = db.prepare('PRAGMA page_count').get() as { page_count: number };
    const { page_size: size } = db.prepare('PRAGMA page_size').get() as { page_size: number };
    if (pages * size > maxCheckedBytes) {
      db.prepare('SELECT count(*) FROM sqlite_schema').get();
      return;
    }
    const row = db.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
    if (row.quick_check === 'ok') return;
    throw new Error(row.quick_check);
  } catch (error) {
    db.close();
    throw openError(path, error);
  }
}

function openError(path: string, error: unknown): AppError {
  const { errcode, message } = error as { errcode?: number; message: string };
  const primary = (errcode ?? 0) & 0xff;
  if (primary === 5 || primary === 6) {
    return new AppError('unavailable', `Another program has locked the database ${path}.`, {
      hint: 'Close the program that has it open, then start again.',
      cause: error,
    });
  }
  if (primary === 14 || primary === 8 || primary === 3) {
    return new AppError('unavailable', `Cannot open the database ${path}: ${message}.`, {
      hint: 'Check that you own the home folder and its files, and that the disk is not read-only.',
      cause: error,
    });
  }
  return new AppError('unavailable', `The database ${path} is damaged: ${message}.`, {
    hint: 'Nothing was changed. Restore a backup with `errand restore FILE`; `errand store check` lists the damage.',
    cause: error,
  });
}

function requireSafeVersion(): void {
  const version = process.versions.sqlite!.split('.').map(Number);
  for (const [i, min] of minVersion.entries()) {
    if (version[i]! > min) return;
    if (version[i]! < min) {
      throw new AppError(
        'unavailable',
        `SQLite ${process.versions.sqlite} can lose data. Version 3.51.3 or newer is required.`,
        { hint: 'Use Node 24.15 or newer.' },
      );
    }
  }
}
