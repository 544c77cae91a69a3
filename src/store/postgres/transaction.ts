// Runs several commands in one transaction. All statements leave in one burst, and all results are checked before COMMIT,
// so a transaction always costs two round trips. What several commands share (counters, entries of one queue) is written
// once at the end.
import type { PoolClient, QueryResult } from 'pg';
import { partScope } from '../store.ts';
import type { Count, DispatchEntry, Intent, Row, Step, Value } from '../store.ts';
import { batchWrites } from './write-batch.ts';
import type { Dispatcher } from './dispatcher.ts';
import { prepare, returnsRows } from './sql.ts';

/** A step matched a different number of rows than it expected. */
export class Conflict {
  readonly step: number;
  constructor(step: number) {
    this.step = step;
  }
}

interface SentStatement {
  command: number;
  step: number;
  expect: number | undefined;
  rows: boolean;
  result: Promise<QueryResult>;
}

export class Transaction {
  private readonly client: PoolClient;
  private readonly dispatcher: Dispatcher;
  private readonly sent: SentStatement[] = [];
  private readonly tail: Promise<unknown>[] = [];
  private readonly counts = new Map<string, number>();
  private readonly ready = new Map<string, DispatchEntry>();
  private readonly scheduled = new Map<string, DispatchEntry>();
  private readonly removed = new Map<string, Set<string>>();
  private readonly withoutQueue = new Set<string>();
  private leases: { taken: readonly DispatchEntry[]; holder: string; until: number } | undefined;
  private command = -1;

  constructor(client: PoolClient, dispatcher: Dispatcher) {
    this.client = client;
    this.dispatcher = dispatcher;
    batchWrites(client);
    this.push(client.query('BEGIN'));
  }

  /** Sends the next command and returns its index. */
  add(steps: readonly Step[]): number {
    batchWrites(this.client);
    this.command += 1;
    for (const [index, step] of steps.entries()) {
      if ('sql' in step) this.send(step.sql, step.params ?? [], { index, expect: step.expect });
      else if ('count' in step) this.count(step.count);
      else if ('event' in step) {
        const { jobId, n, type, at, data } = step.event;
        this.send(eventSql, [jobId, n, type, at, data], { index, expect: undefined });
      } else this.applyIntent(step, index);
    }
    return this.command;
  }

  /** Returns the rows of each command by step. Throws the first failure: a Conflict or the database error. */
  async commit(): Promise<{ rows: Row[][][]; queues: Set<string> }> {
    this.finish();
    const rows = await this.results();
    await this.removeWithoutQueue();
    await this.client.query('COMMIT');
    const queues = new Set([...this.ready.values()].map(({ queue }) => queue));
    return { rows, queues };
  }

  /** Delays an entry that a claim defers. */
  schedule(entry: DispatchEntry): void {
    this.scheduled.set(entry.attemptId, entry);
  }

  /** Leases claimed entries. An entry that is already leased fails the transaction. */
  hold(taken: readonly DispatchEntry[], holder: string, until: number): void {
    this.leases = { taken, holder, until };
  }

  remove(queue: string, attemptId: string): void {
    let ids = this.removed.get(queue);
    if (!ids) this.removed.set(queue, (ids = new Set()));
    ids.add(attemptId);
  }

  private send(
    sql: string,
    params: readonly Value[],
    check: { index: number; expect: number | undefined },
  ): void {
    const result = this.client.query({ ...prepare(sql), values: params as unknown[] });
    ignoreRejection(result);
    const { index: step, expect } = check;
    this.sent.push({ command: this.command, step, expect, rows: returnsRows(sql), result });
  }

  private push(result: Promise<unknown>): void {
    ignoreRejection(result);
    this.tail.push(result);
  }

  private count({ scope, part, key, delta }: Count['count']): void {
    for (const one of part === undefined ? [scope] : [scope, partScope(scope, part)]) {
      const name = `${one}\n${key}`;
      this.counts.set(name, (this.counts.get(name) ?? 0) + delta);
    }
  }

  private applyIntent(intent: Intent, index: number): void {
    if (intent.dispatch === 'enqueue') {
      const { entry } = intent;
      (entry.runAt > 0 ? this.scheduled : this.ready).set(entry.attemptId, entry);
      return;
    }
    const { attemptId } = intent;
    if (intent.dispatch === 'settle') {
      const holder = intent.holder === undefined ? [] : [intent.holder];
      const sql = `DELETE FROM leases WHERE attempt_id = ?${holder.length > 0 ? ' AND holder = ?' : ''}`;
      this.send(sql, [attemptId, ...holder], { index, expect: 1 });
    } else {
      this.ready.delete(attemptId);
      this.scheduled.delete(attemptId);
      for (const table of ['leases', 'scheduled']) {
        const sql = `DELETE FROM ${table} WHERE attempt_id = ?`;
        this.send(sql, [attemptId], { index, expect: undefined });
      }
    }
    if (intent.queue === undefined) this.withoutQueue.add(attemptId);
    else this.remove(intent.queue, attemptId);
  }

  /** Writes what the commands share, after all of them. */
  private finish(): void {
    batchWrites(this.client);
    for (const id of this.withoutQueue) {
      const again = this.ready.get(id);
      if (!again || !this.withoutQueue.delete(id)) continue;
      this.remove(again.queue, id);
    }
    for (const [queue, ids] of this.removed)
      this.push(this.dispatcher.remove(this.client, queue, [...ids]));
    const byQueue = Map.groupBy(this.ready.values(), ({ queue }) => queue);
    for (const [queue, entries] of byQueue)
      this.push(this.dispatcher.add(this.client, queue, entries));
    const later = [...this.scheduled.values()];
    if (later.length > 0) {
      this.push(
        this.query(
          `INSERT INTO scheduled (attempt_id, job_id, queue, priority, run_at)
           SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
           ON CONFLICT (attempt_id) DO UPDATE SET run_at = excluded.run_at, priority = excluded.priority`,
          (['attemptId', 'jobId', 'queue', 'priority', 'runAt'] as const).map((field) =>
            later.map((entry) => entry[field]),
          ),
        ),
      );
    }
    this.writeCounts();
  }

  /** One statement writes the leases and counters of a claim, because every job pays for a claim. */
  private writeCounts(): void {
    const counts = [...this.counts].filter(([, n]) => n !== 0);
    const names = counts.map(([name]) => name.split('\n'));
    const columns = [
      names.map(([scope]) => scope),
      names.map(([, key]) => key),
      counts.map(([, n]) => n),
    ];
    if (this.leases) {
      const { taken, holder, until } = this.leases;
      const held = (['attemptId', 'jobId', 'queue'] as const).map((field) =>
        taken.map((entry) => entry[field]),
      );
      this.push(this.query(holdSql, [...columns, ...held, holder, until]));
    } else if (counts.length > 0) this.push(this.query(countSql, columns));
  }

  private async results(): Promise<Row[][][]> {
    const [results, tail] = await Promise.all([
      Promise.allSettled(this.sent.map(({ result }) => result)),
      Promise.allSettled(this.tail),
    ]);
    const rows: Row[][][] = Array.from({ length: this.command + 1 }, () => []);
    // Check in order: after a conflict, later steps may fail as well, and only the first failure is the cause.
    for (const [i, { command, step, expect, rows: wanted }] of this.sent.entries()) {
      const result = results[i]!;
      if (result.status === 'rejected') throw result.reason;
      if (expect !== undefined && result.value.rowCount !== expect) throw new Conflict(step);
      rows[command]![step] = wanted ? (result.value.rows as Row[]) : [];
    }
    for (const result of tail) if (result.status === 'rejected') throw result.reason;
    return rows;
  }

  /** Removes entries whose queue the caller does not know. Rare enough for two more round trips. */
  private async removeWithoutQueue(): Promise<void> {
    if (this.withoutQueue.size === 0) return;
    const found = await this.dispatcher.queuesOf(this.client, [...this.withoutQueue]);
    for (const [queue, ids] of found) await this.dispatcher.remove(this.client, queue, ids);
  }

  private query(text: string, values: unknown[]): Promise<QueryResult> {
    return this.client.query({ ...prepare(text), values });
  }
}

const eventSql = 'INSERT INTO events (job_id, n, type, at, data) VALUES (?, ?, ?, ?, ?)';
const countSql = `INSERT INTO counter_deltas (scope, key, n)
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])`;
const holdSql = `WITH counted AS (${countSql})
  INSERT INTO leases (attempt_id, job_id, queue, holder, lease_until)
  SELECT u.a, u.j, u.q, $7, $8 FROM unnest($4::text[], $5::text[], $6::text[]) AS u (a, j, q)`;

/** Results are checked together later. Until then a rejection must not count as unhandled. */
function ignoreRejection(result: Promise<unknown>): void {
  result.catch(() => {});
}
