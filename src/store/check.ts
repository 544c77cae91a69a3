// The part of `errand store check` that applies to every store: each row can be read and decoded. The owners of the
// rows (jobs/check.ts, the kinds) check their meaning through the same reader.
import { isUtf8 } from 'node:buffer';
import { decodeJson } from '../runtime/json.ts';
import { listTables, type Table } from './tables.ts';
import type { JsonColumns, Problem, Row, SearchIndex, StoreReader, Value } from './store.ts';

/** A consistent, read-only view of a whole store, even while servers write to it. */
export interface Snapshot extends StoreReader {
  /** All rows of a table in pages. SQLite returns text as raw bytes. */
  rows(table: Table): AsyncIterable<Row[]>;
  /** Verifies the storage itself: pages and indexes. `notes` lists what could not be verified. */
  verifyPages(): Promise<{ problems: string[]; notes: string[] }>;
}

/** One kind of damage may affect every row. The limit keeps the report readable. */
const maxProblemsPerTable = 20;

interface RowsReport {
  tables: number;
  rows: number;
  problems: Problem[];
}

export async function checkRows(
  snapshot: Snapshot,
  json: JsonColumns,
  indexes: readonly SearchIndex[],
): Promise<RowsReport> {
  const report: RowsReport = { tables: 0, rows: 0, problems: [] };
  for (const table of await listTables(snapshot, indexes)) {
    report.tables += 1;
    const found: string[] = [];
    let count = 0;
    try {
      for await (const rows of snapshot.rows(table)) {
        report.rows += rows.length;
        for (const row of rows) {
          for (const problem of rowProblems(table, row, json[table.name] ?? {}))
            if (count++ < maxProblemsPerTable) found.push(problem);
        }
      }
    } catch (error) {
      found.push(`${table.name}: the rows cannot be read: ${(error as Error).message}`);
    }
    if (count > maxProblemsPerTable)
      found.push(`${table.name}: ${count - maxProblemsPerTable} more such problems`);
    report.problems.push(...found.map((text) => ({ check: 'rows' as const, text })));
  }
  return report;
}

function rowProblems(table: Table, row: Row, json: JsonColumns[string]): string[] {
  return table.columns.flatMap((column) => {
    const reason = valueProblem(row[column] ?? null, table, column, json[column]);
    return reason ? [`${table.name} ${keyText(table, row)}: ${column} ${reason}`] : [];
  });
}

function valueProblem(
  value: Value,
  { blobs }: Table,
  column: string,
  isUsable: JsonColumns[string][string] | undefined,
): string | undefined {
  if (value === null || typeof value === 'number' || blobs.has(column)) return undefined;
  if (typeof value !== 'string' && !isUtf8(value)) return 'is not valid UTF-8';
  if (!isUsable) return undefined;
  // The same decoder as in the server: what it cannot read is a problem, and nothing else is.
  const decoded = decodeJson(textOf(value));
  if (!decoded) return 'is not valid JSON, or is nested too deeply';
  return isUsable(decoded.value) ? undefined : 'is JSON of an unexpected form';
}

/** Uses the id that callers know, if the row has one. */
const keyText = ({ key }: Table, row: Row): string =>
  row.id === undefined ? key.map((column) => textOf(row[column] ?? '')).join('/') : textOf(row.id);

const textOf = (value: Value): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);
