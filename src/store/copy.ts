// Copies a store to another store of either engine: every table row by row, then the dispatcher state. Both sides are
// read again afterwards and must contain the same rows.
import { createHash } from 'node:crypto';
import { AppError } from '../errors.ts';
import { canonicalJson } from '../runtime/json.ts';
import { dispatchedEntries, restoreEntries, type HeldEntry } from './copy-dispatch.ts';
import type { Row, SearchIndex, Store, Value } from './store.ts';
import { readPages, tableNames, listTables, type Table } from './tables.ts';

export interface CopyReport {
  tables: { name: string; rows: number }[];
  waiting: number;
  held: number;
}

/** Tables that belong to the engine or to running servers, not to jobs. */
const excludedTables = new Set([
  'migrations',
  'dispatch',
  'leases',
  'scheduled',
  'counter_deltas',
  'cluster',
  'ledger',
  'sweeps',
  'nodes',
  'sqlite_sequence',
]);

/** PostgreSQL accepts 65,535 parameters in a statement, SQLite 32,766. */
const maxParameters = 30_000;

export async function copyStore(
  from: Store,
  to: Store,
  indexes: readonly SearchIndex[],
): Promise<CopyReport> {
  await requireEmpty(to);
  // Fold the counter deltas, so that both sides have one counters table.
  await from.promote(0);
  const source = await listTables(from, indexes, excludedTables);
  const target = new Map(
    (await listTables(to, indexes, excludedTables)).map((table) => [table.name, table]),
  );
  const report: CopyReport = { tables: [], waiting: 0, held: 0 };
  for (const table of source) {
    const targetTable = target.get(table.name);
    if (!targetTable || targetTable.columns.join() !== table.columns.join()) {
      throw new AppError('conflict', `Table ${table.name} has different columns on both sides.`, {
        hint: 'Start both stores once with the same Errand version, then copy again.',
      });
    }
    const sent = await copyTable(table, from, to);
    const copied = await fingerprint(table, to);
    if (sent.rows !== copied.rows || sent.sum !== copied.sum) {
      throw new AppError(
        'internal',
        `Table ${table.name} differs after the copy: ${sent.rows} rows copied, ${copied.rows} rows found.`,
        {
          hint: 'Stop everything that writes to either store. Then empty the target and copy again.',
        },
      );
    }
    report.tables.push({ name: table.name, rows: copied.rows });
  }
  await resetSequences(to, source);
  const tableList = await tableNames(to);
  for (const { table, refill } of indexes)
    if (tableList.includes(table)) await to.commit([{ sql: refill }]);
  const entries = await dispatchedEntries(from);
  await restoreEntries(to, entries);
  const copiedEntries = await dispatchedEntries(to);
  if (describeEntries(entries) !== describeEntries(copiedEntries))
    throw new AppError('internal', 'The dispatch entries differ after the copy.');
  report.held = entries.filter(({ holder }) => holder !== null).length;
  report.waiting = entries.length - report.held;
  return report;
}

async function requireEmpty(to: Store): Promise<void> {
  const rows = await to.read('SELECT id FROM jobs LIMIT 1');
  if (rows.length === 0) return;
  throw new AppError('conflict', 'The target store already contains jobs.', {
    hint: 'Copy into an empty home or schema. Stores are never merged.',
  });
}

interface Fingerprint {
  rows: number;
  /** Sum of all row hashes: independent of row order, sensitive to every byte. */
  sum: bigint;
}

async function copyTable(table: Table, from: Store, to: Store): Promise<Fingerprint> {
  const print: Fingerprint = { rows: 0, sum: 0n };
  // Rows that a migration inserted are part of the source as well.
  await to.commit([{ sql: `DELETE FROM "${table.name}"` }]);
  const perStatement = Math.max(1, Math.floor(maxParameters / table.columns.length));
  for await (const page of readPages(table, from)) {
    addRows(print, table, page);
    for (let i = 0; i < page.length; i += perStatement) {
      const rows = page.slice(i, i + perStatement);
      await to.commit([{ sql: insertSql(table, rows.length, to), params: values(table, rows) }]);
    }
  }
  return print;
}

async function fingerprint(table: Table, store: Store): Promise<Fingerprint> {
  const print: Fingerprint = { rows: 0, sum: 0n };
  for await (const page of readPages(table, store)) addRows(print, table, page);
  return print;
}

function addRows(print: Fingerprint, { columns }: Table, rows: readonly Row[]): void {
  for (const row of rows) {
    const text = JSON.stringify(columns.map((column) => toJsonValue(row[column] ?? null)));
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 32);
    print.sum = (print.sum + BigInt(`0x${hash}`)) & ((1n << 128n) - 1n);
    print.rows += 1;
  }
}

const toJsonValue = (value: Value): string | number | null =>
  value instanceof Uint8Array ? `blob:${Buffer.from(value).toString('hex')}` : value;

function insertSql({ name, columns }: Table, rows: number, { engine }: Store): string {
  const names = columns.map((column) => `"${column}"`).join(', ');
  const row = `(${columns.map(() => '?').join(', ')})`;
  const override = engine === 'postgres' ? ' OVERRIDING SYSTEM VALUE' : '';
  return `INSERT INTO "${name}" (${names})${override} VALUES ${Array.from({ length: rows }, () => row).join(', ')}`;
}

const values = ({ columns }: Table, rows: readonly Row[]): Value[] =>
  rows.flatMap((row) => columns.map((column) => row[column] ?? null));

/** Moves each sequence past the copied values. SQLite does this itself. */
async function resetSequences(to: Store, tables: readonly Table[]): Promise<void> {
  if (to.engine !== 'postgres') return;
  for (const { name, key } of tables) {
    for (const column of key) {
      const [sequence] = await to.read<{ name: string | null }>(
        'SELECT pg_get_serial_sequence(?, ?) AS name',
        [`"${name}"`, column],
      );
      if (!sequence?.name) continue;
      await to.read(
        `SELECT setval(?::text, greatest((SELECT max("${column}") FROM "${name}"), 1)::bigint)`,
        [sequence.name],
      );
    }
  }
}

const describeEntries = (entries: readonly HeldEntry[]): string =>
  entries.map(canonicalJson).toSorted().join('\n');
