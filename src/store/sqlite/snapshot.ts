// A read-only view of a database file for `errand store check`: one read transaction, even while a server writes.
import { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import type { Snapshot } from '../check.ts';
import type { Row, Value } from '../store.ts';
import type { Table } from '../tables.ts';

const pageSize = 500;
const maxProblems = 100;

export function openSqliteSnapshot(path: string): Snapshot & { close(): Promise<void> } {
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 5000 });
    db.exec('BEGIN');
    // The first read starts the transaction.
    db.prepare('PRAGMA schema_version').get();
  } catch (error) {
    throw new AppError('unavailable', `Cannot read ${path}: ${(error as Error).message}.`, {
      hint: 'Restore a backup with `errand restore FILE`.',
      cause: error,
    });
  }
  return {
    engine: 'sqlite',
    read: async <T extends object>(sql: string, params: readonly Value[] = []) =>
      db.prepare(sql).all(...params) as T[],
    rows: (table) => readRows(db, table),
    verifyPages: async () => ({ problems: verify(db), notes: [] }),
    close: async () => db.close(),
  };
}

/** Verifies every page, index entry and constraint. */
function verify(db: DatabaseSync): string[] {
  try {
    const rows = db.prepare(`PRAGMA integrity_check(${maxProblems})`).all();
    const texts = rows.map(({ integrity_check: text }) => String(text));
    return texts.length === 1 && texts[0] === 'ok' ? [] : texts;
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Returns text as bytes, because decoding would hide invalid UTF-8. */
async function* readRows(db: DatabaseSync, { name, columns, blobs }: Table): AsyncGenerator<Row[]> {
  const asBytes = (column: string) =>
    blobs.has(column)
      ? `"${column}"`
      : `CASE typeof("${column}") WHEN 'text' THEN CAST("${column}" AS BLOB) ELSE "${column}" END AS "${column}"`;
  const statement = db.prepare(`SELECT ${columns.map(asBytes).join(', ')} FROM "${name}"`);
  let rows: Row[] = [];
  for (const row of statement.iterate()) {
    rows.push(row as Row);
    if (rows.length < pageSize) continue;
    yield rows;
    rows = [];
  }
  yield rows;
}
