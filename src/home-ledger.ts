// The ledger of a home, opened only if it is the one the home worked with. Losing a ledger silently is worse than not
// starting: every refusal says what is missing and how to restore it, or how to go on without it.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from './errors.ts';
import { quoted } from './runtime/shell.ts';
import { ledgerOf } from './store/ledger.ts';
import { inspectDatabase, type Inspected } from './store/sqlite/inspect.ts';
import {
  anyLedger,
  CommitMark,
  readMark,
  writeMark,
  type LedgerMark,
} from './store/sqlite/mark.ts';
import { SqliteStore } from './store/sqlite/sqlite.ts';
import type { Migration, StoreReader } from './store/store.ts';

export const databaseOf = (home: string): string => join(home, 'errand.sqlite');
const markOf = (home: string): string => join(home, 'ledger.id');
export const clusterMarkOf = (home: string): string => join(home, 'cluster-ledger.id');

/** Opens the database of a home whose lock the caller has, creating it at the first start. */
export async function openHomeStore(
  home: string,
  migrations: readonly Migration[],
): Promise<SqliteStore> {
  refuseOther(home, inspectDatabase(databaseOf(home)), markIn(markOf(home)));
  const store = new SqliteStore(databaseOf(home));
  try {
    await store.migrate(migrations);
    const found = await store.identity();
    refuseOther(home, { is: 'ledger', ...found }, markIn(markOf(home)));
    const { ledger, commits } = found;
    store.followCommits(new CommitMark(markOf(home), { ledger, commits }));
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Runs a change that puts another database, or another ledger, in its place. Killed at any point, the next start
 * accepts the database that is there, and refuses if there is none.
 */
export async function replaceLedger(
  home: string,
  replace: () => void | Promise<void>,
): Promise<void> {
  writeMark(markOf(home), { ledger: anyLedger, commits: 0 });
  await replace();
  const found = inspectDatabase(databaseOf(home));
  // A database of an older version gets its id at the next start.
  if (found.is !== 'ledger' || found.ledger === undefined) return;
  writeMark(markOf(home), { ledger: found.ledger, commits: found.commits });
}

function refuseOther(home: string, found: Inspected, mark: LedgerMark | undefined): void {
  const file = databaseOf(home);
  const wal = `${file}-wal`;
  const isNew = mark === undefined;
  if (found.is === 'foreign')
    throw refusal(`${file} is not a database of Errand.`, restoreHint(home, isNew));
  if (isNew && found.is === 'missing' && (statSync(wal, { throwIfNoEntry: false })?.size ?? 0) > 0)
    throw refusal(
      `${file} is missing, but its journal ${wal} is there.`,
      `Put errand.sqlite back, or restore a backup: \`errand restore FILE --home ${quoted(home)}\`. To start with an empty ledger: \`rm ${quoted(wal)}\`.`,
    );
  if (found.is === 'ledger' && found.state === 'copying') throw halfCopied(file, home);
  if (isNew || found.is === 'damaged') return;
  if (found.is === 'missing' || found.is === 'empty') {
    const interrupted =
      mark.ledger === anyLedger ? ' A restore or a copy into this home was interrupted.' : '';
    throw refusal(
      `The home ${home} has a ledger, but its database ${file} is ${found.is}.${interrupted}`,
      restoreHint(home),
    );
  }
  if (found.is !== 'ledger' || mark.ledger === anyLedger) return;
  if (found.ledger !== mark.ledger)
    throw refusal(
      `${file} is the database of another ledger than the one of this home.`,
      restoreHint(home, false, 'To use this database as it is'),
    );
  const lost = mark.commits - found.commits;
  if (lost <= 0) return;
  throw refusal(
    `The last ${lost === 1 ? 'change is' : `${lost} changes are`} missing in ${file}: it is an older copy, or ${wal} was removed.`,
    `Put the missing file back, or ${lower(restoreHint(home, false, 'To go on without these changes'))}`,
  );
}

/** A node of a cluster works with one database: another one, or an emptied one, is refused. */
export async function joinLedger(home: string, store: StoreReader, shown: string): Promise<void> {
  const path = clusterMarkOf(home);
  const mark = markIn(path);
  const row = await ledgerOf(store);
  const hint = `Correct ERRAND_STORE, or restore the database with pg_restore. To join this database as a new node: \`rm ${quoted(path)}\`.`;
  if (row?.state === 'copying') throw halfCopied(shown);
  if (!row) throw refusal(`The database ${shown} was emptied: it had a ledger.`, hint);
  if (mark && mark.ledger !== anyLedger && mark.ledger !== row.ledger)
    throw refusal(`The database ${shown} is another ledger than the one of this node.`, hint);
  // Commits are not counted here: nodes share the database, and a restored dump is PostgreSQL's business.
  writeMark(path, { ledger: row.ledger, commits: 0 });
}

function markIn(path: string): LedgerMark | undefined {
  try {
    return readMark(path);
  } catch (error) {
    throw refusal(
      `${path} cannot be read: ${(error as Error).message}.`,
      `It records which ledger this home has. To accept the present database: \`rm ${quoted(path)}\`.`,
      error,
    );
  }
}

function restoreHint(
  home: string,
  isNew = false,
  without = 'To start with an empty ledger',
): string {
  const restore = `Restore a backup: \`errand restore FILE --home ${quoted(home)}\`.`;
  if (isNew) return `${restore} To start with an empty ledger, move the file away.`;
  return `${restore} ${without}: \`rm ${quoted(markOf(home))}\`.`;
}

/** `home`: of an embedded database. */
export function halfCopied(where: string, home?: string): AppError {
  const remove =
    home === undefined
      ? 'Drop its two schemas'
      : `Remove the partial copy (\`rm ${quoted(databaseOf(home))}* ${quoted(markOf(home))}\`)`;
  return refusal(
    `A copy into ${where} was interrupted: it is not complete.`,
    `${remove}, then repeat \`errand store copy --from STORE --to STORE\`. The source was not changed.`,
  );
}

const lower = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

const refusal = (message: string, hint: string, cause?: unknown): AppError =>
  new AppError('unavailable', message, { hint, cause });
