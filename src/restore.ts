// Puts a backup in the place of a home's database. The home's lock is held meanwhile; the present database is kept.
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { openHome } from './home.ts';
import { openDatabase } from './store/sqlite/open.ts';

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
    copyFileSync(file, next);
    // Opening checks it: a damaged backup is refused before anything is replaced.
    try {
      openDatabase(next).close();
    } catch (error) {
      rmSync(next, { force: true });
      throw error;
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
