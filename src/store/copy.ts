// Moves everything from one store to another, whichever engines they are: every table row by row, then what waits and
// what is held in the dispatcher. Both sides are read again afterwards and must have the same rows.
import { createHash } from 'node:crypto';
import { AppError } from '../errors.ts';
import { canonicalJson } from '../runtime/json.ts';
import { dispatchedEntries, restoreEntries, type HeldEntry } from './copy-dispatch.ts';
import type { Row, SearchIndex, Store, Value } from './store.ts';
import { pages, tableNames, tablesOf, type Table } from './tables.ts';

export interface CopyReport {
  tables: { name: string; rows: number }[];
  waiting: number;
  held: number;
}

/** What belongs to an engine or to the servers that ran, not to the jobs. */
const own = new Set([
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

/** PostgreSQL takes 65,535 parameters in a statement; SQLite 32,766. */
const parametersMax = 30_000;

export async function copyStore(
  from: Store,
  to: Store,
  indexes: readonly SearchIndex[],
): Promise<CopyReport> {
  await refuseFull(to);
  // Deltas are folded, so that counters are one table on both sides.
  await from.promote(0);
  const source = await tablesOf(from, indexes, own);
  const target = new Map((await tablesOf(to, indexes, own)).map((table) => [table.name, table]));
  const report: CopyReport = { tables: [], waiting: 0, held: 0 };
  for (const table of source) {
    const twin = target.get(table.name);
    if (!twin || twin.columns.join() !== table.columns.join()) {
      throw new AppError('conflict', `The table ${table.name} is not the same on both sides.`, {
        hint: 'Start both stores once with the same version of Errand, then copy again.',
      });
    }
    const sent = await copyTable(table, from, to);
    const kept = await fingerprint(table, to);
    if (sent.rows !== kept.rows || sent.sum !== kept.sum) {
      throw new AppError(
        'internal',
        `${table.name} differs after the copy: ${sent.rows} rows, ${kept.rows} rows.`,
        {
          hint: 'Nobody may write to either side meanwhile. Empty the target and copy again.',
        },
      );
    }
    report.tables.push({ name: table.name, rows: kept.rows });
  }
  await resetSequences(to, source);
  const all = await tableNames(to);
  for (const { table, refill } of indexes)
    if (all.includes(table)) await to.commit([{ sql: refill }]);
  const entries = await dispatchedEntries(from);
  await restoreEntries(to, entries);
  const there = await dispatchedEntries(to);
  if (same(entries) !== same(there))
    throw new AppError('internal', 'What waits in the queues differs after the copy.');
  report.held = entries.filter(({ holder }) => holder !== null).length;
  report.waiting = entries.length - report.held;
  return report;
}

async function refuseFull(to: Store): Promise<void> {
  const rows = await to.read('SELECT id FROM jobs LIMIT 1');
  if (rows.length === 0) return;
  throw new AppError('conflict', 'The target already has jobs.', {
    hint: 'Copy into an empty home or schema: nothing is ever mixed.',
  });
}

interface Fingerprint {
  rows: number;
  /** Sum of the hashes of all rows: the order does not matter, every byte does. */
  sum: bigint;
}

async function copyTable(table: Table, from: Store, to: Store): Promise<Fingerprint> {
  const print: Fingerprint = { rows: 0, sum: 0n };
  // A migration may have put first rows there; they come again with the copy, as they are now.
  await to.commit([{ sql: `DELETE FROM "${table.name}"` }]);
  const perStatement = Math.max(1, Math.floor(parametersMax / table.columns.length));
  for await (const page of pages(table, from)) {
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
  for await (const page of pages(table, store)) addRows(print, table, page);
  return print;
}

function addRows(print: Fingerprint, { columns }: Table, rows: readonly Row[]): void {
  for (const row of rows) {
    const text = JSON.stringify(columns.map((column) => plain(row[column] ?? null)));
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 32);
    print.sum = (print.sum + BigInt(`0x${hash}`)) & ((1n << 128n) - 1n);
    print.rows += 1;
  }
}

const plain = (value: Value): string | number | null =>
  value instanceof Uint8Array ? `blob:${Buffer.from(value).toString('hex')}` : value;

function insertSql({ name, columns }: Table, rows: number, { engine }: Store): string {
  const names = columns.map((column) => `"${column}"`).join(', ');
  const row = `(${columns.map(() => '?').join(', ')})`;
  const kept = engine === 'postgres' ? ' OVERRIDING SYSTEM VALUE' : '';
  return `INSERT INTO "${name}" (${names})${kept} VALUES ${Array.from({ length: rows }, () => row).join(', ')}`;
}

const values = ({ columns }: Table, rows: readonly Row[]): Value[] =>
  rows.flatMap((row) => columns.map((column) => row[column] ?? null));

/** Numbers that the database gives go on after the copied ones. SQLite sees to it by itself. */
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

const same = (entries: readonly HeldEntry[]): string =>
  entries.map(canonicalJson).toSorted().join('\n');
