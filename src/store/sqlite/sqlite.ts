// The embedded store: node:sqlite, one connection, one writer process per home. All commands of one turn of the event
// loop share one COMMIT (group commit), each in its own savepoint; answers are given only after the COMMIT.
import { DatabaseSync, backup, type StatementSync } from 'node:sqlite';
import { statSync } from 'node:fs';
import { AppError } from '../../errors.ts';
import type {
  Candidate,
  ClaimPlan,
  ClaimRequest,
  Commit,
  EventRow,
  Intent,
  LostAttempt,
  Migration,
  Row,
  Step,
  Store,
  Value,
} from '../store.ts';
import { openDatabase } from './open.ts';
import { migrateSqlite } from './migrate.ts';

interface Pending {
  run(): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Thrown inside a savepoint to roll it back: not an error for the caller. */
class Conflict {
  readonly step: number;
  constructor(step: number) {
    this.step = step;
  }
}

const ready = 0;
const scheduled = 1;
const leased = 2;

export class SqliteStore implements Store {
  readonly engine = 'sqlite';
  private readonly db: DatabaseSync;
  private readonly path: string;
  private readonly statements = new Map<string, StatementSync>();
  private pending: Pending[] = [];
  private flushing = false;
  private closed = false;
  private counts = new Map<string, number>();
  private readyQueues = new Set<string>();
  private readonly commitListeners = new Set<() => void>();
  private readonly readyListeners = new Set<(queue: string) => void>();

  constructor(path: string) {
    this.path = path;
    this.db = openDatabase(path);
  }

  async migrate(migrations: readonly Migration[]): Promise<void> {
    migrateSqlite(this.db, migrations);
  }

  async read<T extends object = Row>(sql: string, params: readonly Value[] = []): Promise<T[]> {
    return this.prepare(sql).all(...params) as T[];
  }

  commit(steps: readonly Step[]): Promise<Commit> {
    return this.enqueue((): Commit => ({ applied: true, rows: this.apply(steps) })).catch(
      (error: unknown): Commit => {
        if (error instanceof Conflict) return { applied: false, step: error.step };
        throw error;
      },
    );
  }

  claim(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Promise<Candidate[]> {
    return this.enqueue(() => this.take(request, plan));
  }

  heartbeat(attemptIds: readonly string[], holder: string, leaseUntil: number) {
    return this.enqueue(() => {
      const extend = this.prepare(
        `UPDATE dispatch SET lease_until = ? WHERE attempt_id = ? AND state = ${leased} AND holder = ?`,
      );
      return new Set(attemptIds.filter((id) => extend.run(leaseUntil, id, holder).changes === 1));
    });
  }

  lost(now: number, limit: number): Promise<LostAttempt[]> {
    return this.read<LostAttempt>(
      `SELECT attempt_id AS "attemptId", job_id AS "jobId", holder FROM dispatch
       WHERE state = ${leased} AND lease_until <= ? LIMIT ?`,
      [now, limit],
    );
  }

  async renewAll(leaseUntil: number): Promise<void> {
    await this.commit([
      {
        sql: `UPDATE dispatch SET lease_until = ? WHERE state = ${leased} AND lease_until < ?`,
        params: [leaseUntil, leaseUntil],
      },
    ]);
  }

  async promote(now: number): Promise<{ queues: string[]; nextAt: number | undefined }> {
    const due = this.prepare(
      `SELECT 1 FROM dispatch WHERE state = ${scheduled} AND run_at <= ? LIMIT 1`,
    ).get(now);
    const queues = due ? await this.enqueue(() => this.promoteDue(now)) : [];
    const next = this.prepare(
      `SELECT run_at AS "runAt" FROM dispatch WHERE state = ${scheduled} ORDER BY run_at LIMIT 1`,
    ).get() as { runAt: number } | undefined;
    return { queues, nextAt: next?.runAt };
  }

  events(after: number, limit: number): Promise<EventRow[]> {
    return this.read<EventRow>(
      `SELECT cursor, job_id AS "jobId", n, type, at, data FROM events WHERE cursor > ? ORDER BY cursor LIMIT ?`,
      [after, limit],
    );
  }

  async eventCursor(): Promise<number> {
    const [row] = await this.read<{ cursor: number }>(
      'SELECT coalesce(max(cursor), 0) AS cursor FROM events',
    );
    return row!.cursor;
  }

  async counters(scope: string): Promise<Record<string, number>> {
    const rows = await this.read<{ key: string; n: number }>(
      'SELECT key, n FROM counters WHERE scope = ? AND n <> 0',
      [scope],
    );
    return Object.fromEntries(rows.map(({ key, n }) => [key, n]));
  }

  onCommit(listener: () => void): () => void {
    this.commitListeners.add(listener);
    return () => this.commitListeners.delete(listener);
  }

  onReady(listener: (queue: string) => void): () => void {
    this.readyListeners.add(listener);
    return () => this.readyListeners.delete(listener);
  }

  async backup(path: string): Promise<void> {
    await backup(this.db, path);
  }

  async size(): Promise<number> {
    return statSync(this.path).size;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.flush();
    this.closed = true;
    this.db.close();
  }

  private prepare(sql: string): StatementSync {
    let statement = this.statements.get(sql);
    if (!statement) {
      statement = this.db.prepare(sql);
      this.statements.set(sql, statement);
    }
    return statement;
  }

  private enqueue<T>(run: () => T): Promise<T> {
    if (this.closed) return Promise.reject(new AppError('unavailable', 'The store is closed.'));
    return new Promise<T>((resolve, reject) => {
      this.pending.push({ run, resolve: resolve, reject });
      if (this.flushing) return;
      this.flushing = true;
      setImmediate(() => this.flush());
    });
  }

  /** One transaction for all that waits. A failed COMMIT fails the whole group. */
  private flush(): void {
    this.flushing = false;
    const group = this.pending;
    if (group.length === 0 || this.closed) return;
    this.pending = [];
    const answers: (() => void)[] = [];
    try {
      this.prepare('BEGIN IMMEDIATE').run();
      for (const { run, resolve, reject } of group) {
        try {
          const value = this.savepoint(run);
          answers.push(() => resolve(value));
        } catch (error) {
          // A full disk ends the whole transaction; anything else only its own savepoint.
          if (!this.db.isTransaction) throw error;
          answers.push(() => reject(error));
        }
      }
      this.writeCounts();
      this.prepare('COMMIT').run();
    } catch (error) {
      if (this.db.isTransaction) this.db.exec('ROLLBACK');
      this.counts.clear();
      this.readyQueues.clear();
      const failure = storeError(error);
      for (const { reject } of group) reject(failure);
      return;
    }
    const queues = [...this.readyQueues];
    this.readyQueues.clear();
    for (const answer of answers) answer();
    for (const listener of this.commitListeners) listener();
    for (const queue of queues) for (const listener of this.readyListeners) listener(queue);
  }

  private savepoint<T>(run: () => T): T {
    const countsBefore = new Map(this.counts);
    const queuesBefore = new Set(this.readyQueues);
    this.prepare('SAVEPOINT command').run();
    try {
      const value = run();
      this.prepare('RELEASE command').run();
      return value;
    } catch (error) {
      this.counts = countsBefore;
      this.readyQueues = queuesBefore;
      if (this.db.isTransaction) {
        this.prepare('ROLLBACK TO command').run();
        this.prepare('RELEASE command').run();
      }
      throw error;
    }
  }

  private apply(steps: readonly Step[]): Row[][] {
    const rows: Row[][] = [];
    for (const [index, step] of steps.entries()) {
      if ('sql' in step) rows[index] = this.run(step.sql, step.params ?? [], step.expect, index);
      else if ('count' in step) this.addCount(step.count);
      else this.applyIntent(step, index);
    }
    return rows;
  }

  private run(sql: string, params: readonly Value[], expect: number | undefined, index: number) {
    const statement = this.prepare(sql);
    if (/\bRETURNING\b/i.test(sql)) {
      const rows = statement.all(...params) as Row[];
      if (expect !== undefined && rows.length !== expect) throw new Conflict(index);
      return rows;
    }
    const { changes } = statement.run(...params);
    if (expect !== undefined && changes !== expect) throw new Conflict(index);
    return [];
  }

  private applyIntent(intent: Intent, index: number): void {
    if (intent.dispatch === 'enqueue') {
      const { attemptId, jobId, queue, priority, runAt } = intent.entry;
      const state = runAt > 0 ? scheduled : ready;
      this.prepare(
        'INSERT INTO dispatch (attempt_id, job_id, queue, priority, run_at, state) VALUES (?, ?, ?, ?, ?, ?)',
      ).run(attemptId, jobId, queue, priority, runAt, state);
      if (state === ready) this.readyQueues.add(queue);
      return;
    }
    if (intent.dispatch === 'withdraw') {
      this.prepare('DELETE FROM dispatch WHERE attempt_id = ?').run(intent.attemptId);
      return;
    }
    const holder = intent.holder === undefined ? '' : ' AND holder = ?';
    const params = [intent.attemptId, ...(intent.holder === undefined ? [] : [intent.holder])];
    const { changes } = this.prepare(
      `DELETE FROM dispatch WHERE attempt_id = ? AND state = ${leased}${holder}`,
    ).run(...params);
    if (changes !== 1) throw new Conflict(index);
  }

  private take(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Candidate[] {
    const taken: Candidate[] = [];
    for (const { name, limit } of request.queues) {
      let free = request.limit - taken.length;
      if (limit !== undefined) free = Math.min(free, limit - this.leasedOf(name));
      if (free > 0) taken.push(...this.takeFrom({ queue: name, free, request, plan }));
      if (taken.length >= request.limit) break;
    }
    return taken;
  }

  private takeFrom(wish: {
    queue: string;
    free: number;
    request: ClaimRequest;
    plan: (candidate: Candidate) => ClaimPlan;
  }): Candidate[] {
    const { queue, request } = wish;
    const taken: Candidate[] = [];
    const rows = this.prepare(
      `SELECT d.seq AS d_seq, d.attempt_id AS d_attempt, d.priority AS d_priority, d.run_at AS d_run_at, j.*
       FROM dispatch d JOIN jobs j ON j.id = d.job_id
       WHERE d.queue = ? AND d.state = ${ready} ORDER BY d.priority DESC, d.seq LIMIT ?`,
    ).all(queue, wish.free + (request.lookahead ?? 0)) as Row[];
    for (const row of rows) {
      if (taken.length >= wish.free) break;
      const candidate: Candidate = {
        attemptId: row.d_attempt as string,
        jobId: row.id as string,
        queue,
        priority: row.d_priority as number,
        runAt: row.d_run_at as number,
        job: row,
      };
      const decision = wish.plan(candidate);
      if (decision.take) {
        this.prepare(
          `UPDATE dispatch SET state = ${leased}, lease_until = ?, holder = ? WHERE seq = ?`,
        ).run(request.now + request.leaseMs, request.holder, row.d_seq!);
        this.apply(decision.steps);
        taken.push(candidate);
      } else if (decision.drop) {
        this.prepare('DELETE FROM dispatch WHERE seq = ?').run(row.d_seq!);
      } else if (decision.runAt !== undefined) {
        this.prepare(`UPDATE dispatch SET state = ${scheduled}, run_at = ? WHERE seq = ?`).run(
          decision.runAt,
          row.d_seq!,
        );
      }
    }
    return taken;
  }

  private leasedOf(queue: string): number {
    const row = this.prepare(
      `SELECT count(*) AS n FROM dispatch WHERE queue = ? AND state = ${leased}`,
    ).get(queue) as { n: number };
    return row.n;
  }

  private promoteDue(now: number): string[] {
    const rows = this.prepare(
      `UPDATE dispatch SET state = ${ready} WHERE seq IN
         (SELECT seq FROM dispatch WHERE state = ${scheduled} AND run_at <= ? ORDER BY run_at LIMIT 1000)
       RETURNING queue`,
    ).all(now) as { queue: string }[];
    const queues = new Set(rows.map((row) => row.queue));
    for (const queue of queues) this.readyQueues.add(queue);
    return [...queues];
  }

  /** Deltas of a whole group are written once: a counter touched by 500 submits costs one statement. */
  private addCount({ scope, key, delta }: { scope: string; key: string; delta: number }): void {
    const name = `${scope}\n${key}`;
    this.counts.set(name, (this.counts.get(name) ?? 0) + delta);
  }

  private writeCounts(): void {
    for (const [name, delta] of this.counts) {
      if (delta === 0) continue;
      const [scope, key] = name.split('\n');
      this.prepare(
        `INSERT INTO counters (scope, key, n) VALUES (?, ?, ?)
         ON CONFLICT (scope, key) DO UPDATE SET n = n + excluded.n`,
      ).run(scope!, key!, delta);
    }
    this.counts.clear();
  }
}

function storeError(error: unknown): unknown {
  const code = (error as { errcode?: number }).errcode;
  // SQLITE_FULL and SQLITE_IOERR: nothing of the group happened, and the caller may try again.
  if (code !== undefined && ((code & 0xff) === 13 || (code & 0xff) === 10)) {
    return new AppError('unavailable', 'The disk is full or failing: nothing was changed.', {
      hint: 'Free space on the disk of the home, then try again.',
      cause: error,
    });
  }
  return error;
}
