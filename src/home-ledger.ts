// Opens the database of a home only if it contains the ledger that the home last used. Losing a ledger silently is worse
// than not starting: every error says what is missing, how to restore it, and how to continue without it.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { clusterMarkOf } from './home.ts';
import { shellQuote } from './runtime/shell.ts';
import { readLedger } from './store/ledger.ts';
import { inspectDatabase, type Inspection } from './store/sqlite/inspect.ts';
import {
  anyLedger,
  CommitMark,
  readMark,
  writeMark,
  type LedgerMark,
} from './store/sqlite/ledger-mark.ts';
import { SqliteStore } from './store/sqlite/sqlite.ts';
import type { Migration, StoreReader } from './store/store.ts';

export const databaseOf = (home: string): string => join(home, 'errand.sqlite');
const markPath = (home: string): string => join(home, 'ledger.id');

/** Opens the database of a home, or creates it on first start. The caller must hold the home lock. */
export async function openHomeStore(
  home: string,
  migrations: readonly Migration[],
): Promise<SqliteStore> {
  rejectWrongLedger(home, inspectDatabase(databaseOf(home)), readMarkFile(markPath(home)));
  const store = new SqliteStore(databaseOf(home));
  try {
    await store.migrate(migrations);
    const found = await store.identity();
    rejectWrongLedger(home, { is: 'ledger', ...found }, readMarkFile(markPath(home)));
    const { ledger, commits } = found;
    store.recordCommits(new CommitMark(markPath(home), { ledger, commits }));
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Runs a change that replaces the database or the ledger. If it is killed at any point, the next start accepts the database
 * that exists, or fails if there is none.
 */
export async function replaceLedger(
  home: string,
  replace: () => void | Promise<void>,
): Promise<void> {
  writeMark(markPath(home), { ledger: anyLedger, commits: 0 });
  await replace();
  const found = inspectDatabase(databaseOf(home));
  // A database from an older version gets its id on the next start.
  if (found.is !== 'ledger' || found.ledger === undefined) return;
  writeMark(markPath(home), { ledger: found.ledger, commits: found.commits });
}

function rejectWrongLedger(home: string, found: Inspection, mark: LedgerMark | undefined): void {
  const file = databaseOf(home);
  const wal = `${file}-wal`;
  const isNew = mark === undefined;
  if (found.is === 'foreign')
    throw ledgerError(`${file} is not an Errand database.`, restoreHint(home, isNew));
  if (isNew && found.is === 'missing' && (statSync(wal, { throwIfNoEntry: false })?.size ?? 0) > 0)
    throw ledgerError(
      `${file} is missing, but its journal ${wal} exists.`,
      `Put errand.sqlite back, or restore a backup: \`errand restore FILE --home ${shellQuote(home)}\`. To start with an empty ledger: \`rm ${shellQuote(wal)}\`.`,
    );
  if (found.is === 'ledger' && found.state === 'copying') throw incompleteCopyError(file, home);
  if (isNew || found.is === 'damaged') return;
  if (found.is === 'missing' || found.is === 'empty') {
    const interrupted =
      mark.ledger === anyLedger ? ' A restore or a copy into this home was interrupted.' : '';
    throw ledgerError(
      `The home ${home} has a ledger, but its database ${file} is ${found.is}.${interrupted}`,
      restoreHint(home),
    );
  }
  if (found.is !== 'ledger' || mark.ledger === anyLedger) return;
  if (found.ledger !== mark.ledger)
    throw ledgerError(
      `${file} belongs to a different ledger than this home.`,
      restoreHint(home, false, 'To use this database as it is'),
    );
  const lost = mark.commits - found.commits;
  if (lost <= 0) return;
  throw ledgerError(
    `The last ${lost === 1 ? 'change is' : `${lost} changes are`} missing from ${file}: it is an older copy, or ${wal} was removed.`,
    `Put the missing file back, or ${lowercaseFirst(restoreHint(home, false, 'To continue without these changes'))}`,
  );
}

/** A cluster node uses one database: a different or emptied one is rejected. */
export async function joinLedger(home: string, store: StoreReader, label: string): Promise<void> {
  const path = clusterMarkOf(home);
  const mark = readMarkFile(path);
  const row = await readLedger(store);
  const hint = `Correct ERRAND_STORE, or restore the database with pg_restore. To join this database as a new node: \`rm ${shellQuote(path)}\`.`;
  if (row?.state === 'copying') throw incompleteCopyError(label);
  if (!row)
    throw ledgerError(`The database ${label} no longer contains its ledger: it was emptied.`, hint);
  if (mark && mark.ledger !== anyLedger && mark.ledger !== row.ledger)
    throw ledgerError(
      `The database ${label} contains a different ledger than this node uses.`,
      hint,
    );
  // Commits are not counted here: nodes share the database, and PostgreSQL is responsible for restored dumps.
  writeMark(path, { ledger: row.ledger, commits: 0 });
}

function readMarkFile(path: string): LedgerMark | undefined {
  try {
    return readMark(path);
  } catch (error) {
    throw ledgerError(
      `${path} cannot be read: ${(error as Error).message}.`,
      `It records which ledger this home uses. To accept the current database: \`rm ${shellQuote(path)}\`.`,
      error,
    );
  }
}

function restoreHint(
  home: string,
  isNew = false,
  alternative = 'To start with an empty ledger',
): string {
  const restore = `Restore a backup: \`errand restore FILE --home ${shellQuote(home)}\`.`;
  if (isNew) return `${restore} To start with an empty ledger, move the file away.`;
  return `${restore} ${alternative}: \`rm ${shellQuote(markPath(home))}\`.`;
}

/** `home` is set for an SQLite database. */
export function incompleteCopyError(where: string, home?: string): AppError {
  const remove =
    home === undefined
      ? 'Drop its two schemas'
      : `Remove the partial copy (\`rm ${shellQuote(databaseOf(home))}* ${shellQuote(markPath(home))}\`)`;
  return ledgerError(
    `A copy into ${where} was interrupted. The database is incomplete.`,
    `${remove}, then repeat \`errand store copy --from STORE --to STORE\`. The source was not changed.`,
  );
}

const lowercaseFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

const ledgerError = (message: string, hint: string, cause?: unknown): AppError =>
  new AppError('unavailable', message, { hint, cause });
