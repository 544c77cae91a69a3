// Puts a backup in the place of a home's database. The home's lock is held meanwhile; the present database is kept.
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { openHome } from './home.ts';
import { checkBackup } from './store/sqlite/backup.ts';

/** What SQLite keeps beside a database. */
const sideFiles = ['-wal', '-shm'];

export async function restoreBackup(homePath: string, file: string): Promise<void> {
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
    const present = join(homePath, 'errand.sqlite');
    for (const part of ['', ...sideFiles]) {
      if (existsSync(present + part))
        renameSync(present + part, `${present}.before-restore${part}`);
    }
    renameSync(next, present);
  } finally {
    home.release();
  }
}

function noBackup(file: string, error: Error): AppError {
  const { message } = error.cause instanceof Error ? error.cause : error;
  return new AppError('invalidInput', `${file} is no backup that can be restored: ${message}.`, {
    hint: 'Nothing was changed. Name a file that `errand backup` wrote.',
    cause: error,
  });
}
