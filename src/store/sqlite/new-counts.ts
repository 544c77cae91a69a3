// The counts of the present transaction are kept back and written together: a counter touched by 500 submits costs one row,
// and one statement writes several rows.
import { partScope, type Count, type Value } from '../store.ts';
import type { Statements } from './statements.ts';

const atOnce = [4, 2, 1];
/** For counts that are of no part. */
const whole = '';

/** By scope, part and key. */
type Deltas = Map<string, Map<string, Map<string, number>>>;

export class NewCounts {
  /** Counts what was added, written or not. */
  added = 0;
  private readonly statements: Statements;
  private waiting: Deltas = new Map();

  constructor(statements: Statements) {
    this.statements = statements;
  }

  add({ scope, part = whole, key, delta }: Count['count']): void {
    this.added += 1;
    let parts = this.waiting.get(scope);
    if (!parts) this.waiting.set(scope, (parts = new Map()));
    let keys = parts.get(part);
    if (!keys) parts.set(part, (keys = new Map()));
    keys.set(key, (keys.get(key) ?? 0) + delta);
  }

  /** Before the transaction ends. */
  write(): void {
    const rows = rowsOf(this.waiting);
    this.waiting.clear();
    let at = 0;
    for (const count of atOnce) {
      for (const size = 3 * count; rows.length - at >= size; at += size)
        this.statements.run(upsertSql(count), ...rows.slice(at, at + size));
    }
  }

  drop(): void {
    this.waiting.clear();
  }

  /** Puts back what waits now: a command that fails is undone alone. */
  mark(): () => void {
    const before: Deltas = new Map();
    for (const [scope, parts] of this.waiting)
      before.set(scope, new Map([...parts].map(([part, keys]) => [part, new Map(keys)])));
    return () => {
      this.waiting = before;
    };
  }
}

/** What a scope's parts have in common is the scope's own. */
function rowsOf(waiting: Deltas): Value[] {
  const rows: Value[] = [];
  const put = (scope: string, keys: ReadonlyMap<string, number>) => {
    for (const [key, delta] of keys) if (delta !== 0) rows.push(scope, key, delta);
  };
  for (const [scope, parts] of waiting) {
    const total = new Map<string, number>();
    for (const [part, keys] of parts) {
      for (const [key, delta] of keys) total.set(key, (total.get(key) ?? 0) + delta);
      if (part !== whole) put(partScope(scope, part), keys);
    }
    put(scope, total);
  }
  return rows;
}

const upsertSqls = new Map(
  atOnce.map((count) => {
    const rows = Array.from({ length: count }, () => '(?, ?, ?)').join(', ');
    const sql = `INSERT INTO counters (scope, key, n) VALUES ${rows}
      ON CONFLICT (scope, key) DO UPDATE SET n = n + excluded.n`;
    return [count, sql];
  }),
);

const upsertSql = (count: number): string => upsertSqls.get(count)!;
