// Inspects a database file without changing it: whether it is an Errand ledger, and which one.
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

export type Inspection =
  | { is: 'missing' | 'empty' | 'foreign' | 'damaged' }
  /** `ledger` is undefined if an older version wrote the database. */
  | { is: 'ledger'; ledger: string | undefined; commits: number; state: string };

export function inspectDatabase(path: string): Inspection {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) return { is: 'missing' };
  if (file.size === 0) return { is: 'empty' };
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 5000 });
    return inspectTables(db);
  } catch {
    return { is: 'damaged' };
  } finally {
    db?.close();
  }
}

function inspectTables(db: DatabaseSync): Inspection {
  const names = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`).all();
  const tables = new Set(names.map(({ name }) => name));
  if (tables.size === 0) return { is: 'empty' };
  if (!tables.has('migrations')) return { is: 'foreign' };
  // The first start was interrupted before it created the job tables.
  if (!tables.has('jobs')) return { is: tables.size <= tablesBeforeJobs ? 'empty' : 'foreign' };
  if (!tables.has('ledger')) return { is: 'ledger', ledger: undefined, commits: 0, state: 'ready' };
  const row = db.prepare('SELECT ledger, commits, state FROM ledger WHERE id = 1').get() as
    | { ledger: string; commits: number; state: string }
    | undefined;
  return row ? { is: 'ledger', ...row } : { is: 'foreign' };
}

/** migrations, dispatch, counters and ledger. */
const tablesBeforeJobs = 4;
