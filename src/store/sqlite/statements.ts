// Prepared statements by their text. Written once for both databases, the text is fitted to SQLite here.
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Row, Value } from '../store.ts';

export interface Prepared {
  statement: StatementSync;
  /** It answers rows (RETURNING), not only a number of changes. */
  returning: boolean;
}

export class Statements {
  private readonly db: DatabaseSync;
  /** Rows changed so far. */
  changes = 0;
  private readonly byText = new Map<string, Prepared>();

  constructor(db: DatabaseSync) {
    this.db = db;
  }

  get(sql: string): Prepared {
    let prepared = this.byText.get(sql);
    if (!prepared) {
      const returning = /\bRETURNING\b/i.test(sql);
      prepared = { statement: this.db.prepare(fitted(sql)), returning };
      this.byText.set(sql, prepared);
    }
    return prepared;
  }

  /** Answers the number of changed rows. */
  run(sql: string, ...params: Value[]): number {
    const changes = this.get(sql).statement.run(...params).changes as number;
    this.changes += changes;
    return changes;
  }

  /** A statement that writes, with what it RETURNs. */
  change(sql: string, params: readonly Value[]): { changes: number; returned?: Row[] } {
    const { statement, returning } = this.get(sql);
    if (!returning) {
      const changes = statement.run(...params).changes as number;
      this.changes += changes;
      return { changes };
    }
    const returned = statement.all(...params) as Row[];
    this.changes += returned.length;
    return { changes: returned.length, returned };
  }

  /** A statement that changes no rows: BEGIN, COMMIT, SAVEPOINT … */
  control(sql: string): void {
    this.get(sql).statement.run();
  }

  all<T extends object = Row>(sql: string, params: readonly Value[] = []): T[] {
    return this.get(sql).statement.all(...params) as T[];
  }
}

/** SQLite plans a statement anew for every value of a bare `LIMIT ?` (five times the cost of a claim), not for a sum. */
const fitted = (sql: string): string => sql.replaceAll(/\bLIMIT \?/gi, 'LIMIT ? + 0');
