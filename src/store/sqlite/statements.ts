// Prepared statements by their text. Written once for both databases, the text is fitted to SQLite here.
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Row, Value } from '../store.ts';

export interface Prepared {
  statement: StatementSync;
  /** It answers rows (RETURNING), not only a number of changes. */
  returning: boolean;
  /** It may look at events. */
  namesEvents: boolean;
  /** Names of its columns, once it was asked for rows. */
  names?: string[];
  /** A row without values. */
  blank?: Row;
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
      const namesEvents = /\bevents\b/i.test(sql);
      prepared = { statement: this.db.prepare(fitted(sql)), returning, namesEvents };
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
    const returned = this.all(sql, params);
    this.changes += returned.length;
    return { changes: returned.length, returned };
  }

  /** A statement that changes no rows: BEGIN, COMMIT, SAVEPOINT … */
  control(sql: string): void {
    this.get(sql).statement.run();
  }

  /** Rows come as arrays and become objects here: with a column for each of 40 fields that takes half the time. */
  all<T extends object = Row>(sql: string, params: readonly Value[] = []): T[] {
    const prepared = this.get(sql);
    const names = prepared.names ?? namesOf(prepared);
    const lists = prepared.statement.all(...params) as unknown as Value[][];
    return lists.map((values) => {
      const row: Row = { ...prepared.blank };
      for (let i = 0; i < names.length; i++) row[names[i]!] = values[i]!;
      return row as T;
    });
  }

  /** The tables changed: what was prepared for the old ones is prepared again. */
  forget(): void {
    this.byText.clear();
  }
}

function namesOf(prepared: Prepared): string[] {
  prepared.statement.setReturnArrays(true);
  prepared.names = prepared.statement.columns().map(({ name }) => name);
  prepared.blank = Object.fromEntries(prepared.names.map((name) => [name, null]));
  return prepared.names;
}

/** SQLite plans a statement anew for every value of a bare `LIMIT ?` (five times the cost of a claim), not for a sum. */
const fitted = (sql: string): string => sql.replaceAll(/\bLIMIT \?/gi, 'LIMIT ? + 0');
