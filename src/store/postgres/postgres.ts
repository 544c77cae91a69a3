// The cluster store: the ledger in PostgreSQL, pg-boss as the dispatcher, in one database and one transaction.
// Several servers share it; each has its own pool, group commit and wake-up connection.
import type { Pool } from 'pg';
import { AppError } from '../../errors.ts';
import { systemClock, type Clock } from '../../runtime/clock.ts';
import type {
  Candidate,
  ClaimPlan,
  ClaimRequest,
  Commit,
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
import { bequeath, joinCluster, sharedSecret, type Identity } from './identity.ts';
import { checkPostgres, migratePostgres } from './migrate.ts';
import {
  bossSchema,
  databaseError,
  loadPg,
  openPool,
  parseAddress,
  withoutHurry,
  type Address,
} from './open.ts';
import { SkewClock } from './skew.ts';
import { prepare } from './sql.ts';
import { Wake } from './wake.ts';

const promoteMax = 1000;
const pollMs = 1000;
/** Header and index entries of a row. */
const rowOverheadBytes = 120;

interface Working {
  dispatcher: Dispatcher;
  committer: Committer;
  events: EventReader;
}

export class PostgresStore implements Store {
  readonly engine = 'postgres';
  private readonly pool: Pool;
  private readonly address: Address;
  private readonly wake: Wake;
  /** The database's time: what this node must use wherever nodes compare times. */
  readonly clock: SkewClock;
  private working: Promise<Working> | undefined;
  private closed = false;

  private constructor(parts: { pool: Pool; address: Address; wake: Wake; clock: SkewClock }) {
    this.pool = parts.pool;
    this.address = parts.address;
    this.wake = parts.wake;
    this.clock = parts.clock;
  }

  /** Connects and refuses what cannot work; the schema is looked at by `migrate` or `check`, one of which must follow. */
  static async open(url: string, clock: Clock = systemClock): Promise<PostgresStore> {
    const address = parseAddress(url);
    const pg = await loadPg();
    const pool = await openPool(pg, address);
    const wake = new Wake({ pg, pool, address, clock, pollMs });
    const skewed = new SkewClock(clock, pool);
    await skewed.start();
    return new PostgresStore({ pool, address, wake, clock: skewed });
  }

  /** The address without the password. */
  get shown(): string {
    return `${this.address.shown} (schema ${this.address.schema})`;
  }

  /** Answers the secret that all nodes of this cluster share; refuses a schema of another cluster. */
  join(identity: Identity): Promise<Buffer> {
    return this.told(() => joinCluster(this.pool, this.address, identity));
  }

  /** For a copy of this store; `key` is what its nodes have. */
  sharedSecret(key: string | undefined): Promise<Buffer | undefined> {
    return this.told(() => sharedSecret(this.pool, this.address, key));
  }

  /** The secret of a store that was copied here. */
  bequeath(secret: Buffer): Promise<void> {
    return this.told(() => bequeath(this.pool, secret));
  }

  /** The address of this machine as the database sees it; undefined over a unix socket. */
  async seenAs(): Promise<string | undefined> {
    const [row] = await this.read<{ address: string | null }>(
      'SELECT host(inet_client_addr()) AS address',
    );
    return row?.address ?? undefined;
  }

  /** For metrics: connections in use, idle, and how many wait for one. */
  poolCounts(): { total: number; idle: number; waiting: number } {
    const { totalCount: total, idleCount: idle, waitingCount: waiting } = this.pool;
    return { total, idle, waiting };
  }

  async migrate(migrations: readonly Migration[]): Promise<void> {
    await this.applyMigrations(migrations);
    await this.work();
  }

  /** `errand migrate`: answers what was applied, starts nothing. */
  applyMigrations(migrations: readonly Migration[]): Promise<string[]> {
    return this.told(() =>
      withoutHurry(this.address, (client) => migratePostgres(client, this.address, migrations)),
    );
  }

  /** A server's start: the schema must fit already. */
  async check(migrations: readonly Migration[]): Promise<void> {
    await this.told(() =>
      withClient(this.pool, (client) => checkPostgres(client, this.address, migrations)),
    );
    await this.work();
  }

  async read<T extends object = Row>(sql: string, params: readonly Value[] = []): Promise<T[]> {
    const query = { ...prepare(sql), values: params as unknown[] };
    const { rows } = await this.told(() => this.pool.query(query));
    return rows as T[];
  }

  async commit(steps: readonly Step[]): Promise<Commit> {
    const { committer } = await this.work();
    return this.told(() => committer.commit(steps));
  }

  async claim(
    request: ClaimRequest,
    plan: (candidate: Candidate) => ClaimPlan,
  ): Promise<Candidate[]> {
    const { dispatcher } = await this.work();
    const { taken, contested } = await this.told(() =>
      claimAttempts({ pool: this.pool, dispatcher }, request, plan),
    );
    if (taken.length > 0) this.wake.committed([]);
    this.wake.contested(contested);
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

  lost(now: number, limit: number): Promise<LostAttempt[]> {
    return this.read<LostAttempt>(
      `SELECT attempt_id AS "attemptId", job_id AS "jobId", holder FROM leases
       WHERE lease_until <= ? LIMIT ?`,
      [now, limit],
    );
  }

  async ahead(queue: string, attemptId: string, limit: number): Promise<number> {
    const { dispatcher } = await this.work();
    return this.told(() => dispatcher.ahead(this.pool, queue, { attemptId, limit }));
  }

  async renewAll(leaseUntil: number): Promise<void> {
    await this.read('UPDATE leases SET lease_until = ? WHERE lease_until < ?', [
      leaseUntil,
      leaseUntil,
    ]);
  }

  async swept(now: number): Promise<number | undefined> {
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
    const { events } = await this.work();
    return this.told(() => events.read(after, limit));
  }

  async eventCursor(): Promise<number> {
    const { events } = await this.work();
    return this.told(() => events.newest());
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

  onCommit(listener: () => void): () => void {
    return this.wake.listeners.onCommit(listener);
  }

  onReady(listener: (queue: string) => void): () => void {
    return this.wake.listeners.onReady(listener);
  }

  async backup(): Promise<void> {
    throw new AppError('unsupported', 'A PostgreSQL store is backed up with PostgreSQL itself.', {
      hint: `Use pg_dump with -n ${this.address.schema} -n ${bossSchema(this.address.schema)}, or \`errand store copy\` into a home.`,
    });
  }

  /** Of live rows, by the planner's statistics: files do not shrink when rows go. */
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
    const working = await this.working?.catch(() => undefined);
    await working?.committer.drain();
    await this.wake.stop();
    await working?.dispatcher.stop();
    await this.pool.end();
  }

  /** Everything that needs the schema: made when it is known to fit. */
  private work(): Promise<Working> {
    if (this.closed) throw new AppError('unavailable', 'The store is closed.');
    this.working ??= this.told(async () => {
      const { pool, wake, address } = this;
      const dispatcher = await Dispatcher.start(pool, address.schema);
      await wake.start();
      const lanesMax = Math.max(1, Math.floor(address.poolMax / 2));
      const committed = (queues: ReadonlySet<string>) => wake.committed(queues);
      return {
        dispatcher,
        committer: new Committer({ pool, dispatcher, lanesMax, committed }),
        events: new EventReader(pool, this.clock, () => wake.again()),
      };
    }).catch((error: unknown) => {
      this.working = undefined;
      throw error;
    });
    return this.working;
  }

  private async promoteDue(now: number): Promise<string[]> {
    const { dispatcher } = await this.work();
    const due = await this.told(() =>
      withClient(this.pool, async (client) => {
        await client.query('BEGIN');
        const { rows } = await client.query<DispatchEntry>(
          `DELETE FROM scheduled WHERE attempt_id IN
             (SELECT attempt_id FROM scheduled WHERE run_at <= $1 ORDER BY run_at LIMIT ${promoteMax}
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
    this.wake.committed(queues);
    return queues;
  }

  /** One node at a time; whoever comes second leaves it to the first. */
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

  private async told<T>(run: () => Promise<T>): Promise<T> {
    if (this.closed) throw new AppError('unavailable', 'The store is closed.');
    try {
      return await run();
    } catch (error) {
      throw databaseError(error, this.address);
    }
  }
}
