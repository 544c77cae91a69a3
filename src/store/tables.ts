// Reads table names, columns and primary keys from the database catalog, and pages through the rows.
import type { Row, SearchIndex, StoreReader, Value } from './store.ts';

export interface Table {
  name: string;
  /** In alphabetical order, which is the same in both engines. */
  columns: string[];
  key: string[];
  /** Columns that hold bytes. */
  blobs: ReadonlySet<string>;
}

const pageSize = 500;

/** Every table except search indexes, which are different in each engine. */
export async function listTables(
  store: StoreReader,
  indexes: readonly SearchIndex[],
  excluded: ReadonlySet<string> = new Set(),
): Promise<Table[]> {
  // SQLite stores an index in several tables with its name as prefix.
  const isIndex = (name: string) =>
    indexes.some(({ table }) => name === table || name.startsWith(`${table}_`));
  const names = await tableNames(store);
  const tables: Table[] = [];
  for (const name of names.filter((one) => !excluded.has(one) && !isIndex(one)).toSorted()) {
    const { columns, key, blobs } = await readColumns(store, name);
    tables.push({ name, columns: columns.toSorted(), key, blobs: new Set(blobs) });
  }
  return tables;
}

export async function tableNames(store: StoreReader): Promise<string[]> {
  const sql =
    store.engine === 'sqlite'
      ? `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
      : `SELECT table_name AS name FROM information_schema.tables
         WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`;
  return (await store.read<{ name: string }>(sql)).map(({ name }) => name);
}

async function readColumns(
  store: StoreReader,
  table: string,
): Promise<{ columns: string[]; key: string[]; blobs: string[] }> {
  if (store.engine === 'sqlite') {
    const rows = await store.read<{ name: string; type: string; pk: number }>(
      `SELECT name, type, pk FROM pragma_table_info(?)`,
      [table],
    );
    const keyed = rows.filter(({ pk }) => pk > 0).toSorted((a, b) => a.pk - b.pk);
    return {
      columns: rows.map(({ name }) => name),
      key: keyed.map(({ name }) => name),
      blobs: rows.filter(({ type }) => type === 'BLOB').map(({ name }) => name),
    };
  }
  const columns = await store.read<{ name: string; type: string }>(
    `SELECT column_name AS name, data_type AS type FROM information_schema.columns
     WHERE table_schema = current_schema() AND table_name = ?`,
    [table],
  );
  const key = await store.read<{ name: string }>(
    `SELECT a.attname AS name FROM pg_index i
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
     WHERE i.indrelid = to_regclass(?) AND i.indisprimary
     ORDER BY array_position(i.indkey::int2[], a.attnum)`,
    [table],
  );
  return {
    columns: columns.map(({ name }) => name),
    key: key.map(({ name }) => name),
    blobs: columns.filter(({ type }) => type === 'bytea').map(({ name }) => name),
  };
}

/** Yields all rows in primary key order. A table without a key is read as one page. */
export async function* readPages(table: Table, store: StoreReader): AsyncGenerator<Row[]> {
  const { name, columns, key } = table;
  const select = `SELECT ${columns.map((column) => `"${column}"`).join(', ')} FROM "${name}"`;
  if (key.length === 0) {
    yield store.read<Row>(select);
    return;
  }
  const order = key.map((column) => `"${column}"`).join(', ');
  const marks = key.map(() => '?').join(', ');
  let after: Value[] | undefined;
  for (;;) {
    const rows = await store.read<Row>(
      `${select} ${after ? `WHERE (${order}) > (${marks})` : ''} ORDER BY ${order} LIMIT ${pageSize}`,
      after ?? [],
    );
    if (rows.length === 0) return;
    yield rows;
    after = key.map((column) => rows.at(-1)![column]!);
  }
}
