// The embedded store: node:sqlite, one connection, one writer process per home. All commands that arrive in one turn of
// the event loop share one COMMIT (group commit). A failed command is undone alone. Promises settle only after the COMMIT.
import type { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import type {
  Candidate,
  ClaimPlan,
  ClaimRequest,
  Commit,
  CounterRange,
  CounterRow,
  EventRow,
  Intent,
  LostAttempt,
  Migration,
  Row,
  Step,
  Store,
  Value,
} from '../store.ts';
import { StoreListeners } from '../listeners.ts';
import { writeBackup } from './backup.ts';
import { RowCache } from './row-cache.ts';
import { aheadSql, lostSql, SqliteDispatcher } from './dispatcher.ts';
import type { CommitMark } from './ledger-mark.ts';
import { migrateSqlite } from './migrate.ts';
import { CounterBuffer } from './counter-buffer.ts';
import { EventBuffer } from './event-buffer.ts';
import { openDatabase } from './open.ts';
import { Statements } from './statements.ts';

const maxRows = Number.MAX_SAFE_INTEGER;

interface Pending {
  run(): unknown;
  /** For a claim: how many attempts it wants. */
  wanted?: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Thrown inside a command to undo it. Callers receive `applied: false`, not an error. */
class Conflict {
  readonly step: number;
  constructor(step: number) {
    this.step = step;
  }
}

export class SqliteStore implements Store {
  readonly engine = 'sqlite';
  private readonly db: DatabaseSync;
  private readonly statements: Statements;
  private readonly dispatcher: SqliteDispatcher;
  private pending: Pending[] = [];
  private flushing = false;
  private closed = false;
  private readonly counterBuffer: CounterBuffer;
  private readonly eventBuffer: EventBuffer;
  private readonly rowCache = new RowCache();
  private readyQueues = new Set<string>();
  private readonly listeners = new StoreListeners();
  /** Number of commits of this ledger; undefined before the first migration. */
  private commits: number | undefined;
  private mark: CommitMark | undefined;

  constructor(path: string) {
    this.db = openDatabase(path);
    this.statements = new Statements(this.db);
    this.counterBuffer = new CounterBuffer(this.statements);
    this.eventBuffer = new EventBuffer(this.statements);
    this.dispatcher = new SqliteDispatcher(this.statements, {
      apply: (steps) => this.tryApply(steps),
      ready: (queue) => this.readyQueues.add(queue),
    });
  }

  async migrate(migrations: readonly Migration[]): Promise<void> {
    this.rowCache.clear();
    migrateSqlite(this.db, migrations);
    this.statements.clear();
    this.commits = (await this.identity()).commits;
  }

  async identity(): Promise<{ ledger: string; commits: number; state: string }> {
    const sql = 'SELECT ledger, commits, state FROM ledger WHERE id = 1';
    return this.statements.all<{ ledger: string; commits: number; state: string }>(sql)[0]!;
  }

  /** Records the commit count in the home after every COMMIT. */
  recordCommits(mark: CommitMark): void {
    this.mark = mark;
  }

  async read<T extends object = Row>(sql: string, params: readonly Value[] = []): Promise<T[]> {
    const [key] = params;
    if (params.length !== 1 || typeof key !== 'string') return this.statements.all<T>(sql, params);
    const known = this.rowCache.find(sql, key);
    if (known) return [known as T];
    const rows = this.statements.all<T>(sql, params);
    if (rows.length === 1) this.rowCache.add(sql, key, rows[0] as Row);
    return rows;
  }

  commit(steps: readonly Step[]): Promise<Commit> {
    return new Promise((resolve, reject) => {
      this.add({
        run: (): Commit => ({ applied: true, rows: this.apply(steps) }),
        resolve,
        reject: (error) => {
          if (error instanceof Conflict) resolve({ applied: false, step: error.step });
          else reject(error);
        },
      });
    });
  }

  claim(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Promise<Candidate[]> {
    return this.enqueue(() => this.dispatcher.take(request, plan), request.limit);
  }

  heartbeat(attemptIds: readonly string[], holder: string, leaseUntil: number) {
    return this.enqueue(
      () => new Set(attemptIds.filter((id) => this.dispatcher.extend(id, holder, leaseUntil))),
    );
  }

  lostAttempts(now: number, limit: number): Promise<LostAttempt[]> {
    return this.read<LostAttempt>(lostSql, [now, limit]);
  }

  async countAhead(queue: string, attemptId: string, limit: number): Promise<number> {
    const [row] = await this.read<{ n: number }>(aheadSql, [attemptId, queue, limit]);
    return row!.n;
  }

  renewLeases(leaseUntil: number): Promise<void> {
    return this.enqueue(() => this.dispatcher.renewLeases(leaseUntil));
  }

  async promote(now: number): Promise<{ queues: string[]; nextAt: number | undefined }> {
    const due = this.dispatcher.isDue(now);
    const queues = due ? await this.enqueue(() => this.dispatcher.promote(now)) : [];
    return { queues, nextAt: this.dispatcher.nextDue() };
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

  counterRange({ from, to, limit = maxRows }: CounterRange): Promise<CounterRow[]> {
    return this.read<CounterRow>(
      'SELECT scope, key, n FROM counters WHERE scope >= ? AND scope < ? AND n <> 0 ORDER BY scope, key LIMIT ?',
      [from, to, limit],
    );
  }

  onCommit(listener: () => void): () => void {
    return this.listeners.onCommit(listener);
  }

  onReady(listener: (queue: string) => void): () => void {
    return this.listeners.onReady(listener);
  }

  async backup(path: string): Promise<void> {
    await writeBackup(this.db, path);
  }

  async size(): Promise<number> {
    // Freed pages are reused, but the file does not shrink.
    const one = (name: string) =>
      Object.values(this.statements.all<Record<string, number>>(`PRAGMA ${name}`)[0]!)[0]!;
    return (one('page_count') - one('freelist_count')) * one('page_size');
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.flush();
    this.closed = true;
    this.db.close();
    this.mark?.close();
  }

  private enqueue<T>(run: () => T, wanted = 0): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.add({ run, wanted, resolve, reject });
    });
  }

  private add(command: Pending): void {
    if (this.closed) {
      command.reject(new AppError('unavailable', 'The store is closed.'));
      return;
    }
    this.pending.push(command);
    if (this.flushing) return;
    this.flushing = true;
    setImmediate(() => this.flush());
  }

  /** Runs all pending commands in one transaction. A failed COMMIT fails the whole group. */
  private flush(): void {
    this.flushing = false;
    const group = this.pending;
    if (group.length === 0 || this.closed) return;
    this.pending = [];
    this.rowCache.clear();
    let settlements: (() => void)[];
    try {
      settlements = this.transaction(group, false) ?? this.transaction(group, true)!;
    } catch (error) {
      this.rollback();
      const failure = storeError(error);
      for (const { reject } of group) reject(failure);
      return;
    }
    const queues = [...this.readyQueues];
    this.readyQueues.clear();
    for (const settle of settlements) settle();
    this.listeners.notify(queues);
  }

  /**
   * Most groups need no savepoints: they have no conflict, or each conflict occurs before its command changed anything.
   * Otherwise the transaction is rolled back and returns undefined, and the group runs again with one savepoint per command.
   */
  private transaction(group: readonly Pending[], savepoints: boolean): (() => void)[] | undefined {
    const settlements: (() => void)[] = [];
    const atStart = this.changeCount();
    this.statements.control('BEGIN IMMEDIATE');
    this.dispatcher.begin(group.reduce((sum, { wanted = 0 }) => sum + wanted, 0));
    for (const { run, resolve, reject } of group) {
      const before = this.changeCount();
      try {
        const value = savepoints ? this.savepoint(run) : run();
        settlements.push(() => resolve(value));
      } catch (error) {
        // A full disk aborts the whole transaction; any other error only its own command.
        if (!this.db.isTransaction) throw error;
        if (!savepoints && this.changeCount() !== before) {
          this.rollback();
          return undefined;
        }
        settlements.push(() => reject(error));
      }
    }
    if (!this.flushEvents(savepoints)) return undefined;
    this.counterBuffer.write();
    if (this.changeCount() === atStart || this.commits === undefined)
      this.statements.control('COMMIT');
    else this.commitNumbered(this.commits + 1);
    return settlements;
  }

  private commitNumbered(commits: number): void {
    this.statements.run('UPDATE ledger SET commits = ? WHERE id = 1', commits);
    this.statements.control('COMMIT');
    this.commits = commits;
    this.mark?.write(commits);
  }

  /** Returns false if an event cannot be written. The transaction is rolled back; savepoints then identify the command. */
  private flushEvents(savepoints: boolean): boolean {
    try {
      this.eventBuffer.write();
      return true;
    } catch (error) {
      if (savepoints || !this.db.isTransaction) throw error;
      this.rollback();
      return false;
    }
  }

  private changeCount(): number {
    return this.statements.changes + this.counterBuffer.added + this.eventBuffer.added;
  }

  private rollback(): void {
    if (this.db.isTransaction) this.db.exec('ROLLBACK');
    this.counterBuffer.drop();
    this.eventBuffer.drop();
    this.readyQueues.clear();
  }

  private savepoint<T>(run: () => T): T {
    const restoreCounters = this.counterBuffer.snapshot();
    const queuesBefore = new Set(this.readyQueues);
    this.statements.control('SAVEPOINT command');
    try {
      const value = run();
      this.eventBuffer.write();
      this.statements.control('RELEASE command');
      return value;
    } catch (error) {
      restoreCounters();
      this.eventBuffer.drop();
      this.readyQueues = queuesBefore;
      this.dispatcher.begin(0);
      if (this.db.isTransaction) {
        this.statements.control('ROLLBACK TO command');
        this.statements.control('RELEASE command');
      }
      throw error;
    }
  }

  private tryApply(steps: readonly Step[]): boolean {
    const before = this.changeCount();
    try {
      this.apply(steps);
      return true;
    } catch (error) {
      if (!(error instanceof Conflict) || this.changeCount() !== before) throw error;
      return false;
    }
  }

  private apply(steps: readonly Step[]): Row[][] {
    const rows: Row[][] = [];
    for (const [index, step] of steps.entries()) {
      if ('sql' in step) {
        if (this.statements.get(step.sql).mentionsEvents) this.eventBuffer.write();
        const { changes, returned } = this.statements.change(step.sql, step.params ?? []);
        if (step.expect !== undefined && changes !== step.expect) throw new Conflict(index);
        if (returned) rows[index] = returned;
      } else if ('count' in step) this.counterBuffer.add(step.count);
      else if ('event' in step) this.eventBuffer.add(step.event);
      else if (!this.dispatch(step)) throw new Conflict(index);
    }
    return rows;
  }

  private dispatch(intent: Intent): boolean {
    switch (intent.dispatch) {
      case 'enqueue':
        this.dispatcher.enqueue(intent.entry);
        return true;
      case 'withdraw':
        this.dispatcher.withdraw(intent.attemptId);
        return true;
      case 'settle':
        return this.dispatcher.settle(intent.attemptId, intent.holder);
    }
  }
}

function storeError(error: unknown): unknown {
  const code = ((error as { errcode?: number }).errcode ?? 0) & 0xff;
  // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_FULL and SQLITE_IOERR roll back the whole group, so the caller may retry.
  if (code === 5 || code === 6) {
    return new AppError('unavailable', 'The database is locked. Nothing was changed.', {
      hint: 'Close the other program that has it open for writing, then try again.',
      cause: error,
    });
  }
  if (code === 13 || code === 10) {
    return new AppError('unavailable', 'The disk is full or failing. Nothing was changed.', {
      hint: 'Free space on the disk that contains the home, then try again.',
      cause: error,
    });
  }
  return error;
}
