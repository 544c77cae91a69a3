// Counts and sorts jobs by conditions that no index covers. The table is read in windows of the submission order, so that a
// large table never blocks the server for long.
import type { Row, Store, Value } from '../store/store.ts';
import type { Status } from '../contracts/jobs.ts';
import { filterSql, type JobFilter } from './ledger.ts';

export type SortKey = 'ended' | 'duration';

const windowSize = 20_000;

/** Jobs that have not ended have no value and are not listed. */
const valueSql: Record<SortKey, string> = {
  ended: 'finished_at',
  duration: '(finished_at - started_at)',
};

/** The position of a job in a sorted list. */
export interface Position {
  value: number;
  seq: number;
}

export interface JobCount {
  count: number;
  /** False if more than `count` jobs match. */
  isExact: boolean;
  byStatus: Partial<Record<Status, number>>;
}

export async function countJobs(store: Store, filter: JobFilter, max: number): Promise<JobCount> {
  const byStatus: Partial<Record<Status, number>> = {};
  const { where, params } = conditions(filter);
  let count = 0;
  for await (const [from, to] of windows(store)) {
    const rows = await store.read<{ status: Status; n: number }>(
      `SELECT status, count(*) AS n FROM jobs WHERE seq > ? AND seq <= ?${where} GROUP BY status`,
      [from, to, ...params],
    );
    for (const { status, n } of rows) {
      byStatus[status] = (byStatus[status] ?? 0) + Number(n);
      count += Number(n);
    }
    if (count > max) return { count: max, isExact: false, byStatus };
  }
  return { count, isExact: true, byStatus };
}

/** The positions of the first jobs after `after` in this order. */
export async function sortJobs(
  store: Store,
  filter: JobFilter,
  order: { by: SortKey; ascending: boolean; after?: Position | undefined; limit: number },
): Promise<Position[]> {
  const { by, ascending, after, limit } = order;
  const value = valueSql[by];
  const { where, params } = conditions(filter);
  const than = ascending ? '>' : '<';
  const later = after ? ` AND (${value} ${than} ? OR (${value} = ? AND seq ${than} ?))` : '';
  const position: Value[] = after ? [after.value, after.value, after.seq] : [];
  const direction = ascending ? 'ASC' : 'DESC';
  const compare = (a: Position, b: Position) =>
    (a.value - b.value || a.seq - b.seq) * (ascending ? 1 : -1);
  let first: Position[] = [];
  for await (const [from, to] of windows(store)) {
    const rows = await store.read<Row>(
      `SELECT seq, ${value} AS value FROM jobs
       WHERE seq > ? AND seq <= ? AND ${value} IS NOT NULL${where}${later}
       ORDER BY value ${direction}, seq ${direction} LIMIT ?`,
      [from, to, ...params, ...position, limit],
    );
    const found = rows.map((row) => ({ value: Number(row.value), seq: Number(row.seq) }));
    first = [...first, ...found].toSorted(compare).slice(0, limit);
  }
  return first;
}

/** Yields the windows from the newest jobs to the oldest. */
async function* windows(store: Store): AsyncGenerator<[from: number, to: number]> {
  const [bounds] = await store.read<{ first: number | null; last: number | null }>(
    'SELECT min(seq) AS first, max(seq) AS last FROM jobs',
  );
  if (bounds?.first === null || bounds?.last === null || !bounds) return;
  for (let to = bounds.last; to >= bounds.first; to -= windowSize) {
    yield [to - windowSize, to];
    // SQLite reads synchronously: other work gets its turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function conditions(filter: JobFilter): { where: string; params: Value[] } {
  const parts: string[] = [];
  const params: Value[] = [];
  filterSql(filter, (sql, ...values) => {
    parts.push(sql);
    params.push(...values);
  });
  return { where: parts.map((sql) => ` AND ${sql}`).join(''), params };
}
