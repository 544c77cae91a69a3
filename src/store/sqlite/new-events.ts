// The events of the present transaction are kept back and written many at a time: one statement each costs twice as much.
// Nobody can tell, because a statement that names their table has them written before it.
import type { Append, Value } from '../store.ts';
import type { Statements } from './statements.ts';

const atOnce = [16, 4, 1];

export class NewEvents {
  /** Counts what was added, written or not. */
  added = 0;
  private readonly statements: Statements;
  private waiting: Append['event'][] = [];

  constructor(statements: Statements) {
    this.statements = statements;
  }

  add(event: Append['event']): void {
    this.waiting.push(event);
    this.added += 1;
  }

  /** Before a statement that may look at them, and before the transaction ends. */
  write(): void {
    const events = this.waiting;
    if (events.length === 0) return;
    this.waiting = [];
    let at = 0;
    for (const count of atOnce) {
      for (; events.length - at >= count; at += count) {
        this.statements.run(insertSql(count), ...values(events, at, at + count));
      }
    }
  }

  /** What was not written is undone with its command. */
  drop(): void {
    this.waiting = [];
  }
}

const insertSqls = new Map(
  atOnce.map((count) => {
    const rows = Array.from({ length: count }, () => '(?, ?, ?, ?, ?)').join(', ');
    return [count, `INSERT INTO events (job_id, n, type, at, data) VALUES ${rows}`];
  }),
);

const insertSql = (count: number): string => insertSqls.get(count)!;

function values(events: readonly Append['event'][], from: number, to: number): Value[] {
  const list: Value[] = [];
  for (let i = from; i < to; i++) {
    const { jobId, n, type, at, data } = events[i]!;
    list.push(jobId, n, type, at, data);
  }
  return list;
}
