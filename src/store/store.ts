// The store contract: the ledger (our tables, the source of truth) and the dispatcher (which attempt runs next, and
// whether its holder is alive) in one database. sqlite/ and postgres/ implement it. Code outside store/ must work with both.
//
// SQL is written once for both engines: `?` placeholders, text ids, integer milliseconds, JSON as text,
// `ON CONFLICT … DO NOTHING/UPDATE`, keyset paging. DDL differs only through `Ddl`.

export type Value = string | number | null | Uint8Array;
export type Row = Record<string, Value>;

/** One statement of a command. If `expect` is set and a different number of rows changes, the whole command conflicts. */
export interface Statement {
  sql: string;
  params?: readonly Value[];
  expect?: number;
  /** Name of the row that this statement locks. Commands that share a transaction lock such rows in one order. */
  lock?: string;
}

/** A dispatcher change in the same transaction. */
export type Intent =
  | { dispatch: 'enqueue'; entry: DispatchEntry }
  /** The attempt ended: deletes its entry. Conflicts unless `holder` holds the entry. */
  | { dispatch: 'settle'; attemptId: string; holder?: string; queue?: string }
  /** Deletes a waiting or held entry. A missing entry is not a conflict. A known `queue` saves a lookup. */
  | { dispatch: 'withdraw'; attemptId: string; queue?: string };

export interface DispatchEntry {
  attemptId: string;
  jobId: string;
  queue: string;
  /** Higher runs first; equal priorities run in submission order. */
  priority: number;
  /** Epoch ms; not claimed earlier. 0: immediately. */
  runAt: number;
}

/** Changes a stored counter. `scope` names the counter family, e.g. `queue:default` or `owner:me`. */
export interface Count {
  /** With `part`, the counter of `partScope(scope, part)` changes as well. */
  count: { scope: string; part?: string; key: string; delta: number };
}

export interface CounterRow {
  scope: string;
  key: string;
  n: number;
}

export interface CounterRange {
  /** Scopes from here, in byte order. */
  from: string;
  /** Scopes before this one. */
  to: string;
  limit?: number;
  /** Only rows of the table `counters`, which a statement can delete. PostgreSQL has recent changes elsewhere. */
  isFolded?: boolean;
}

/** The scope for one part of another scope, e.g. for one owner's jobs in a queue. */
export const partScope = (scope: string, part: string): string => `${scope}/${part}`;

/** Appends a job event. The store assigns the global cursor; events of one transaction keep the order of their steps. */
export interface Append {
  event: Omit<EventRow, 'cursor'>;
}

export type Step = Statement | Intent | Count | Append;

export type Commit =
  /** Rows of statements with RETURNING, by step index. */
  | { applied: true; rows: Row[][] }
  /** Nothing was changed: this step matched a different number of rows than it expected. */
  | { applied: false; step: number };

export interface ClaimRequest {
  /** In claim order. `limit`: at most this many attempts of the queue are held concurrently. */
  queues: readonly { name: string; limit?: number }[];
  limit: number;
  /** How many extra entries to examine, because the plan may skip some. */
  lookahead?: number;
  holder: string;
  leaseMs: number;
  now: number;
}

export interface Candidate extends DispatchEntry {
  /** The job row in the ledger, read in the same transaction. */
  readonly job: Row;
  /** `job` reads the row on access, so a plan that uses a cached job avoids the read. If its steps conflict, it is asked again. */
  readonly lazy?: true;
}

/** What to do with a candidate: start it with these steps, leave it waiting (until `runAt` if set), or drop a stale entry. */
export type ClaimPlan =
  | { take: true; steps: Step[] }
  | { take: false; drop?: boolean; runAt?: number };

export interface LostAttempt {
  attemptId: string;
  jobId: string;
  holder: string;
}

export interface EventRow {
  cursor: number;
  jobId: string;
  n: number;
  type: string;
  at: number;
  data: string;
}

export interface Store {
  readonly engine: 'sqlite' | 'postgres';
  /** Reads outside any command. Page with keysets instead of holding an iterator. */
  read<T extends object = Row>(sql: string, params?: readonly Value[]): Promise<T[]>;
  /** Runs one command in one short transaction, or in a savepoint of a shared one. Resolves once it is durable. */
  commit(steps: readonly Step[]): Promise<Commit>;
  /** Claims waiting attempts. `plan` must be pure and synchronous. */
  claim(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Promise<Candidate[]>;
  /** Extends leases and returns the attempts that `holder` still holds. */
  heartbeat(
    attemptIds: readonly string[],
    holder: string,
    leaseUntil: number,
  ): Promise<Set<string>>;
  /** Attempts whose lease expired. They remain until a command settles or withdraws them. */
  lostAttempts(now: number, limit: number): Promise<LostAttempt[]>;
  /** Counts the ready entries of the queue that run before this one, up to `limit`. */
  countAhead(queue: string, attemptId: string, limit: number): Promise<number>;
  /** Gives every holder a fresh lease. Used after a gap (suspend, outage) in which no holder could extend its lease. */
  renewLeases(leaseUntil: number): Promise<void>;
  /** Only with several servers: records a sweep and returns the time of the previous one by any server. */
  recordSweep?(now: number): Promise<number | undefined>;
  /** Makes due entries ready. Returns the affected queues and the time at which the next entry is due. */
  promote(now: number): Promise<{ queues: string[]; nextAt: number | undefined }>;
  /** Events after a global cursor. Never skips an event that a concurrent transaction may still commit. */
  events(after: number, limit: number): Promise<EventRow[]>;
  /** The cursor of the newest readable event. */
  eventCursor(): Promise<number>;
  counters(scope: string): Promise<Record<string, number>>;
  /** Counters other than zero, ordered by scope and key. */
  counterRange(range: CounterRange): Promise<CounterRow[]>;
  /** Called after every commit that changed the ledger, on this node or another one. Calls are coalesced. */
  onCommit(listener: () => void): () => void;
  /** Called when a queue may have something to claim. */
  onReady(listener: (queue: string) => void): () => void;
  migrate(migrations: readonly Migration[]): Promise<void>;
  /** Only where migrations are a separate step (`errand migrate`): rejects a schema that needs migrations. */
  check?(migrations: readonly Migration[]): Promise<void>;
  backup(path: string): Promise<void>;
  /** Database size in bytes, for retention and doctor. */
  size(): Promise<number>;
  close(): Promise<void>;
}

/** The read-only part of a store. */
export type StoreReader = Pick<Store, 'engine' | 'read'>;

/** A problem that `errand store check` found. */
export interface Problem {
  check: 'pages' | 'rows' | 'counters' | 'dispatch' | 'books';
  /** What is wrong: the table, the row and the expected value. */
  text: string;
}

/** Columns that hold JSON, by table and name, and whether the server can use a value that it finds there. */
export type JsonColumns = Readonly<Record<string, Readonly<Record<string, Usable>>>>;
type Usable = (value: unknown) => boolean;

/** Migrations are append-only and numbered per owner: `jobs/1`, `web/2`. Never edit a released one. */
export interface Migration {
  id: string;
  statements(ddl: Ddl): string[];
}

/** Search indexes differ between engines. A copy skips them, and their kind rebuilds them. */
export interface SearchIndex {
  table: string;
  /** Marks everything as not indexed, so that the kind rebuilds the index. */
  refill: string;
}

/** The DDL fragments in which the two databases differ. */
export interface Ddl {
  engine: 'sqlite' | 'postgres';
  /** 64-bit integer. */
  int: string;
  blob: string;
  /** An auto-incrementing primary key column. */
  serial: string;
  /** Appended after the closing parenthesis of CREATE TABLE. */
  strict: string;
}

export const sqliteDdl: Ddl = {
  engine: 'sqlite',
  int: 'INTEGER',
  blob: 'BLOB',
  serial: 'INTEGER PRIMARY KEY AUTOINCREMENT',
  strict: 'STRICT',
};

export const postgresDdl: Ddl = {
  engine: 'postgres',
  int: 'BIGINT',
  blob: 'BYTEA',
  serial: 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
  strict: '',
};
