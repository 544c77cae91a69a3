// Restores a backup into a home. It holds the home lock meanwhile and keeps the previous database.
import { copyFileSync, existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { kinds } from './app.ts';
import { openHome } from './home.ts';
import { databaseOf, replaceLedger } from './home-ledger.ts';
import { folderName } from './plugin.ts';
import { restoreOutput, type CopiedFiles } from './output-copy.ts';
import { checkBackup } from './store/sqlite/backup.ts';
import { openDatabase } from './store/sqlite/open.ts';

/** SQLite's side files of a database. */
const sideFiles = ['-wal', '-shm'];

/** Returns what output was copied, or undefined for a backup without output. */
export async function restoreBackup(
  homePath: string,
  file: string,
): Promise<CopiedFiles | undefined> {
  if (!existsSync(file)) throw new AppError('notFound', `File ${file} does not exist.`);
  const home = openHome(homePath);
  try {
    const next = join(homePath, 'errand.sqlite.restore');
    const clear = () => sideFiles.forEach((part) => rmSync(next + part, { force: true }));
    // Left by a killed restore: the changes of another file must not be applied to this one.
    clear();
    // A wrong or damaged file is rejected before anything is replaced.
    try {
      copyFileSync(file, next);
      checkBackup(next);
    } catch (error) {
      rmSync(next, { force: true });
      throw noBackup(file, error as Error);
    } finally {
      clear();
    }
    await replaceLedger(homePath, () => replace(databaseOf(homePath), next));
    return restoreOutput(file, homePath, kinds.map(folderName));
  } finally {
    home.release();
  }
}

/** A complete database exists at every moment. A server that found none would start with an empty one. */
function replace(present: string, next: string): void {
  if (existsSync(present)) {
    const kept = `${present}.before-restore`;
    for (const part of ['', ...sideFiles]) rmSync(kept + part, { force: true });
    keep(present, kept);
    if (existsSync(`${present}-wal`)) copyFileSync(`${present}-wal`, `${kept}-wal`);
    settle(present);
  }
  for (const part of sideFiles) rmSync(present + part, { force: true });
  renameSync(next, present);
}

function keep(path: string, as: string): void {
  try {
    linkSync(path, as);
  } catch {
    // Not every file system supports hard links.
    copyFileSync(path, as);
  }
}

/** Checkpoints the WAL if the database can be opened. A damaged database may be the reason for the restore. */
function settle(path: string): void {
  try {
    openDatabase(path).close();
  } catch {
    // Kept unchanged.
  }
}

function noBackup(file: string, error: Error): AppError {
  const { message } = error.cause instanceof Error ? error.cause : error;
  return new AppError('invalidInput', `${file} is not a valid backup: ${message}.`, {
    hint: 'Nothing was changed. Use a file that `errand backup` created.',
    cause: error,
  });
}
