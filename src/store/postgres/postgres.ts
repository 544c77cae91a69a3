// The cluster store: the ledger and pg-boss (the dispatcher) in one PostgreSQL database, changed in one transaction.
// Several servers share it. Each has its own pool, group commit and notifier-up connection.
import type { Pool } from 'pg';
import { AppError } from '../../errors.ts';
import { systemClock, type Clock } from '../../runtime/clock.ts';
import type {
  Candidate,
  ClaimPlan,
  ClaimRequest,
  Commit,
  CounterRange,
  CounterRow,
  DispatchEntry,
  EventRow,
  LostAttempt,
  Migration,
  Row,
  Step,
  Store,
  Value,
} from '../store.ts';
import { claimAttempts } from './claim.ts';
import { Committer, withClient } from './committer.ts';
import { Dispatcher } from './dispatcher.ts';
import { EventReader } from './events.ts';
import { setSharedSecret, joinCluster, sharedSecret, type Identity } from './identity.ts';
import { checkPostgres, migratePostgres } from './migrate.ts';
import {
  bossSchema,
  databaseError,
  loadPg,
  openPool,
  parseAddress,
  withoutQueryTimeout,
  type Address,
} from './open.ts';
import { DatabaseClock } from './database-clock.ts';
import { prepare } from './sql.ts';
import { Notifier } from './notifier.ts';

const maxPromote = 1000;
const pollMs = 1000;
/** Row header and index entries. */
const rowOverheadBytes = 120;

interface Components {
  dispatcher: Dispatcher;
  committer: Committer;
  events: EventReader;
}

export class PostgresStore implements Store {
  readonly engine = 'postgres';
  private readonly pool: Pool;
  private readonly address: Address;
  private readonly notifier: Notifier;
  /** The database time. Use it wherever nodes compare times. */
  readonly clock: DatabaseClock;
  private components: Promise<Components> | undefined;
  private closed = false;

  private constructor(deps: {
    pool: Pool;
    address: Address;
    notifier: Notifier;
    clock: DatabaseClock;
  }) {
    this.pool = deps.pool;
    this.address = deps.address;
    this.notifier = deps.notifier;
    this.clock = deps.clock;
  }

  /** Connects and rejects servers that cannot work. Call `migrate` or `check` next to verify the schema. */
  static async open(url: string, clock: Clock = systemClock): Promise<PostgresStore> {
    const address = parseAddress(url);
    const pg = await loadPg();
    const pool = await openPool(pg, address);
    const notifier = new Notifier({ pg, pool, address, clock, pollMs });
    const databaseClock = new DatabaseClock(clock, pool);
    await databaseClock.start();
    return new PostgresStore({ pool, address, notifier, clock: databaseClock });
  }

  /** The address without the password. */
  get label(): string {
    return `${this.address.label} (schema ${this.address.schema})`;
  }

  /** Returns the secret that all nodes of this cluster share. Rejects a schema of another cluster. */
  join(identity: Identity): Promise<Buffer> {
    return this.withDatabaseErrors(() => joinCluster(this.pool, this.address, identity));
  }

  /** The secret for a copy of this store. `key` is the key of its nodes. */
  sharedSecret(key: string | undefined): Promise<Buffer | undefined> {
    return this.withDatabaseErrors(() => sharedSecret(this.pool, this.address, key));
  }

  /** Stores the secret of a store that was copied here. */
  setSharedSecret(secret: Buffer): Promise<void> {
    return this.withDatabaseErrors(() => setSharedSecret(this.pool, secret));
  }

  /** This machine's address as the database sees it; undefined over a unix socket. */
  async clientAddress(): Promise<string | undefined> {
    const [row] = await this.read<{ address: string | null }>(
      'SELECT host(inet_client_addr()) AS address',
    );
    return row?.address ?? undefined;
  }

  /** For metrics: all connections, idle connections, and requests waiting for one. */
  poolCounts(): { total: number; idle: number; waiting: number } {
    const { totalCount: total, idleCount: idle, waitingCount: waiting } = this.pool;
    return { total, idle, waiting };
  }

  async migrate(migrations: readonly Migration[]): Promise<void> {
    await this.applyMigrations(migrations);
    await this.start();
  }

  /** For `errand migrate`: returns the applied migrations and starts nothing. */
  applyMigrations(migrations: readonly Migration[]): Promise<string[]> {
    return this.withDatabaseErrors(() =>
      withoutQueryTimeout(this.address, (client) =>
        migratePostgres(client, this.address, migrations),
      ),
    );
  }

  /** For a server start: rejects a schema that needs migrations. */
  async check(migrations: readonly Migration[]): Promise<void> {
    await this.withDatabaseErrors(() =>
      withClient(this.pool, (client) => checkPostgres(client, this.address, migrations)),
    );
    await this.start();
  }

  async read<T extends object = Row>(sql: string, params: readonly Value[] = []): Promise<T[]> {
    const query = { ...prepare(sql), values: params as unknown[] };
    const { rows } = await this.withDatabaseErrors(() => this.pool.query(query));
    return rows as T[];
  }

  async commit(steps: readonly Step[]): Promise<Commit> {
    const { committer } = await this.start();
    return this.withDatabaseErrors(() => committer.commit(steps));
  }

  async claim(
    request: ClaimRequest,
    plan: (candidate: Candidate) => ClaimPlan,
  ): Promise<Candidate[]> {
    const { dispatcher } = await this.start();
    const { taken, contested } = await this.withDatabaseErrors(() =>
      claimAttempts({ pool: this.pool, dispatcher }, request, plan),
    );
    if (taken.length > 0) this.notifier.committed([]);
    this.notifier.contested(contested);
    return taken;
  }

  async heartbeat(
    attemptIds: readonly string[],
    holder: string,
    leaseUntil: number,
  ): Promise<Set<string>> {
    const rows = await this.read<{ id: string }>(
      `UPDATE leases SET lease_until = ? WHERE attempt_id = ANY(?::text[]) AND holder = ?
       RETURNING attempt_id AS id`,
      [leaseUntil, attemptIds as never, holder],
    );
    return new Set(rows.map(({ id }) => id));
  }

  lostAttempts(now: number, limit: number): Promise<LostAttempt[]> {
    return this.read<LostAttempt>(
      `SELECT attempt_id AS "attemptId", job_id AS "jobId", holder FROM leases
       WHERE lease_until <= ? LIMIT ?`,
      [now, limit],
    );
  }

  async countAhead(queue: string, attemptId: string, limit: number): Promise<number> {
    const { dispatcher } = await this.start();
    return this.withDatabaseErrors(() =>
      dispatcher.countAhead(this.pool, queue, { attemptId, limit }),
    );
  }

  async renewLeases(leaseUntil: number): Promise<void> {
    await this.read('UPDATE leases SET lease_until = ? WHERE lease_until < ?', [
      leaseUntil,
      leaseUntil,
    ]);
  }

  async recordSweep(now: number): Promise<number | undefined> {
    const [row] = await this.read<{ at: number }>(
      `WITH before AS MATERIALIZED (SELECT at FROM sweeps WHERE id = 1),
         noted AS (INSERT INTO sweeps (id, at) VALUES (1, ?)
           ON CONFLICT (id) DO UPDATE SET at = greatest(sweeps.at, excluded.at))
       SELECT at FROM before`,
      [now],
    );
    return row?.at;
  }

  async promote(now: number): Promise<{ queues: string[]; nextAt: number | undefined }> {
    await this.foldCounters();
    const due = await this.read('SELECT 1 AS due FROM scheduled WHERE run_at <= ? LIMIT 1', [now]);
    const queues = due.length > 0 ? await this.promoteDue(now) : [];
    const [next] = await this.read<{ runAt: number }>(
      'SELECT run_at AS "runAt" FROM scheduled ORDER BY run_at LIMIT 1',
    );
    return { queues, nextAt: next?.runAt };
  }

  async events(after: number, limit: number): Promise<EventRow[]> {
    const { events } = await this.start();
    return this.withDatabaseErrors(() => events.read(after, limit));
  }

  async eventCursor(): Promise<number> {
    const { events } = await this.start();
    return this.withDatabaseErrors(() => events.newest());
  }

  async counters(scope: string): Promise<Record<string, number>> {
    const rows = await this.read<{ key: string; n: number }>(
      `SELECT key, sum(n)::bigint AS n FROM (
         SELECT key, n FROM counters WHERE scope = ?
         UNION ALL SELECT key, n FROM counter_deltas WHERE scope = ?) AS both_tables
       GROUP BY key HAVING sum(n) <> 0`,
      [scope, scope],
    );
    return Object.fromEntries(rows.map(({ key, n }) => [key, n]));
  }

  counterRange({ from, to, limit, isFolded }: CounterRange): Promise<CounterRow[]> {
    const where = 'WHERE scope COLLATE "C" >= ? AND scope COLLATE "C" < ?';
    const recent = isFolded ? '' : `UNION ALL SELECT scope, key, n FROM counter_deltas ${where}`;
    return this.read<CounterRow>(
      `SELECT scope, key, sum(n)::bigint AS n FROM (SELECT scope, key, n FROM counters ${where} ${recent}) AS found
       GROUP BY scope, key HAVING sum(n) <> 0 ORDER BY scope COLLATE "C", key LIMIT ?`,
      [from, to, ...(isFolded ? [] : [from, to]), limit ?? null],
    );
  }

  onCommit(listener: () => void): () => void {
    return this.notifier.listeners.onCommit(listener);
  }

  onReady(listener: (queue: string) => void): () => void {
    return this.notifier.listeners.onReady(listener);
  }

  async backup(): Promise<void> {
    throw new AppError('unsupported', 'Errand cannot back up a PostgreSQL store itself.', {
      hint: `Use pg_dump with -n ${this.address.schema} -n ${bossSchema(this.address.schema)}, or \`errand store copy\` into a home.`,
    });
  }

  /** Size of the live rows, from planner statistics: files do not shrink when rows are deleted. */
  async size(): Promise<number> {
    const [row] = await this.read<{ bytes: number }>(
      `SELECT coalesce(sum(t.n_live_tup * (? + w.width)), 0)::bigint AS bytes
       FROM pg_stat_user_tables t JOIN LATERAL (
         SELECT coalesce(sum(s.avg_width), 0) AS width FROM pg_stats s
         WHERE s.schemaname = t.schemaname AND s.tablename = t.relname) AS w ON true
       WHERE t.schemaname = ?`,
      [rowOverheadBytes, this.address.schema],
    );
    return row!.bytes;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.clock.stop();
    const components = await this.components?.catch(() => undefined);
    await components?.committer.drain();
    await this.notifier.stop();
    await components?.dispatcher.stop();
    await this.pool.end();
  }

  /** Creates the parts that need the schema, after it was verified. */
  private start(): Promise<Components> {
    if (this.closed) throw new AppError('unavailable', 'The store is closed.');
    this.components ??= this.withDatabaseErrors(async () => {
      const { pool, notifier, address } = this;
      const dispatcher = await Dispatcher.start(pool, address.schema);
      await notifier.start();
      const maxTransactions = Math.max(1, Math.floor(address.maxPool / 2));
      const onCommit = (queues: ReadonlySet<string>) => notifier.committed(queues);
      return {
        dispatcher,
        committer: new Committer({ pool, dispatcher, maxTransactions, onCommit }),
        events: new EventReader(pool, this.clock, () => notifier.emitSoon()),
      };
    }).catch((error: unknown) => {
      this.components = undefined;
      throw error;
    });
    return this.components;
  }

  private async promoteDue(now: number): Promise<string[]> {
    const { dispatcher } = await this.start();
    const due = await this.withDatabaseErrors(() =>
      withClient(this.pool, async (client) => {
        await client.query('BEGIN');
        const { rows } = await client.query<DispatchEntry>(
          `DELETE FROM scheduled WHERE attempt_id IN
             (SELECT attempt_id FROM scheduled WHERE run_at <= $1 ORDER BY run_at LIMIT ${maxPromote}
              FOR UPDATE SKIP LOCKED)
           RETURNING attempt_id AS "attemptId", job_id AS "jobId", queue, priority, run_at AS "runAt"`,
          [now],
        );
        const entries = rows.toSorted((a, b) => a.runAt - b.runAt);
        for (const [queue, ready] of Map.groupBy(entries, (entry) => entry.queue)) {
          await dispatcher.ensureQueue(queue);
          await dispatcher.add(client, queue, ready);
        }
        await client.query('COMMIT');
        return entries;
      }),
    );
    const queues = [...new Set(due.map(({ queue }) => queue))];
    this.notifier.committed(queues);
    return queues;
  }

  /** One node folds at a time; the others skip it. */
  private async foldCounters(): Promise<void> {
    await this.read(
      `WITH turn AS MATERIALIZED (
         SELECT pg_try_advisory_xact_lock(7411003, hashtext(current_schema())) AS mine),
       gone AS (DELETE FROM counter_deltas WHERE (SELECT mine FROM turn) RETURNING scope, key, n)
       INSERT INTO counters (scope, key, n)
         SELECT scope, key, sum(n)::bigint FROM gone GROUP BY scope, key ORDER BY scope, key
       ON CONFLICT (scope, key) DO UPDATE SET n = counters.n + excluded.n`,
    );
  }

  private async withDatabaseErrors<T>(run: () => Promise<T>): Promise<T> {
    if (this.closed) throw new AppError('unavailable', 'The store is closed.');
    try {
      return await run();
    } catch (error) {
      throw databaseError(error, this.address);
    }
  }
}
