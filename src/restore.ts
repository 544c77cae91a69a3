// Puts a backup in the place of a home's database. The home's lock is held meanwhile; the present database is kept.
import { copyFileSync, existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { kinds } from './app.ts';
import { openHome } from './home.ts';
import { databaseOf, replaceLedger } from './home-ledger.ts';
import { restoreOutput, type CopiedFiles } from './output-copy.ts';
import { checkBackup } from './store/sqlite/backup.ts';
import { openDatabase } from './store/sqlite/open.ts';

/** What SQLite keeps beside a database. */
const sideFiles = ['-wal', '-shm'];

/** Answers what was copied of the output, undefined for a backup of the database alone. */
export async function restoreBackup(
  homePath: string,
  file: string,
): Promise<CopiedFiles | undefined> {
  if (!existsSync(file)) throw new AppError('notFound', `There is no file ${file}.`);
  const home = openHome(homePath);
  try {
    const next = join(homePath, 'errand.sqlite.restore');
    const clear = () => sideFiles.forEach((part) => rmSync(next + part, { force: true }));
    // Of a restore that was killed: another file's changes must not be taken for this one's.
    clear();
    // A wrong or damaged file is refused before anything is replaced.
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
    return restoreOutput(
      file,
      homePath,
      kinds.map(({ name }) => name),
    );
  } finally {
    home.release();
  }
}

/** A whole database is in its place at every moment: a server that found none would begin an empty one. */
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
    // Not every file system has a second name for a file.
    copyFileSync(path, as);
  }
}

/** Nothing of it is left in the files beside it, if it can be opened; a damaged one may be why there is a restore. */
function settle(path: string): void {
  try {
    openDatabase(path).close();
  } catch {
    // It was kept as it was.
  }
}

function noBackup(file: string, error: Error): AppError {
  const { message } = error.cause instanceof Error ? error.cause : error;
  return new AppError('invalidInput', `${file} is no backup that can be restored: ${message}.`, {
    hint: 'Nothing was changed. Name a file that `errand backup` wrote.',
    cause: error,
  });
}
