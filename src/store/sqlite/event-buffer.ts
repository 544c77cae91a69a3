// Buffers events during a transaction and writes many per statement, at half the cost. Readers never notice, because
// the buffer is written before any statement that mentions the events table.
import type { Append, Value } from '../store.ts';
import type { Statements } from './statements.ts';

const batchSizes = [16, 4, 1];

export class EventBuffer {
  /** Number of events added so far, written or not. */
  added = 0;
  private readonly statements: Statements;
  private pending: Append['event'][] = [];

  constructor(statements: Statements) {
    this.statements = statements;
  }

  add(event: Append['event']): void {
    this.pending.push(event);
    this.added += 1;
  }

  /** Call before a statement that may read events, and before the transaction ends. */
  write(): void {
    const events = this.pending;
    if (events.length === 0) return;
    this.pending = [];
    let at = 0;
    for (const count of batchSizes) {
      for (; events.length - at >= count; at += count) {
        this.statements.run(insertSql(count), ...values(events, at, at + count));
      }
    }
  }

  /** Discards the events of a command that is rolled back. */
  drop(): void {
    this.pending = [];
  }
}

const insertSqls = new Map(
  batchSizes.map((count) => {
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
