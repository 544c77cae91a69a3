// Buffers counter changes during a transaction and writes them together: a counter that 500 submits change costs one
// row, and one statement writes several rows.
import { partScope, type Count, type Value } from '../store.ts';
import type { Statements } from './statements.ts';

const batchSizes = [4, 2, 1];
/** The part key of counts without a part. */
const noPart = '';

/** By scope, part and key. */
type Deltas = Map<string, Map<string, Map<string, number>>>;

export class CounterBuffer {
  /** Number of changes added so far, written or not. */
  added = 0;
  private readonly statements: Statements;
  private pending: Deltas = new Map();

  constructor(statements: Statements) {
    this.statements = statements;
  }

  add({ scope, part = noPart, key, delta }: Count['count']): void {
    this.added += 1;
    let parts = this.pending.get(scope);
    if (!parts) this.pending.set(scope, (parts = new Map()));
    let keys = parts.get(part);
    if (!keys) parts.set(part, (keys = new Map()));
    keys.set(key, (keys.get(key) ?? 0) + delta);
  }

  /** Call before the transaction ends. */
  write(): void {
    const rows = toRows(this.pending);
    this.pending.clear();
    let at = 0;
    for (const count of batchSizes) {
      for (const size = 3 * count; rows.length - at >= size; at += size)
        this.statements.run(upsertSql(count), ...rows.slice(at, at + size));
    }
  }

  drop(): void {
    this.pending.clear();
  }

  /** Returns a function that restores the buffer, to undo one failed command. */
  snapshot(): () => void {
    const before: Deltas = new Map();
    for (const [scope, parts] of this.pending)
      before.set(scope, new Map([...parts].map(([part, keys]) => [part, new Map(keys)])));
    return () => {
      this.pending = before;
    };
  }
}

/** The scope's own counters are the sums over its parts. */
function toRows(pending: Deltas): Value[] {
  const rows: Value[] = [];
  const push = (scope: string, keys: ReadonlyMap<string, number>) => {
    for (const [key, delta] of keys) if (delta !== 0) rows.push(scope, key, delta);
  };
  for (const [scope, parts] of pending) {
    const total = new Map<string, number>();
    for (const [part, keys] of parts) {
      for (const [key, delta] of keys) total.set(key, (total.get(key) ?? 0) + delta);
      if (part !== noPart) push(partScope(scope, part), keys);
    }
    push(scope, total);
  }
  return rows;
}

const upsertSqls = new Map(
  batchSizes.map((count) => {
    const rows = Array.from({ length: count }, () => '(?, ?, ?)').join(', ');
    const sql = `INSERT INTO counters (scope, key, n) VALUES ${rows}
      ON CONFLICT (scope, key) DO UPDATE SET n = n + excluded.n`;
    return [count, sql];
  }),
);

const upsertSql = (count: number): string => upsertSqls.get(count)!;
