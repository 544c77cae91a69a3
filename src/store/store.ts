// The contract of a store: the ledger (our tables, the truth) and the dispatcher (which attempt next, is its holder
// alive) in one database. Two implementations: sqlite/ and postgres/. Nothing outside store/ may assume either.
//
// SQL is written once for both: `?` placeholders, text ids, integer milliseconds, JSON as text,
// `ON CONFLICT … DO NOTHING/UPDATE`, keyset paging. DDL differs only through `Ddl`.

export type Value = string | number | null | Uint8Array;
export type Row = Record<string, Value>;

/** One statement of a command. With `expect`, another number of changed rows is a conflict and nothing of the command happens. */
export interface Statement {
  sql: string;
  params?: readonly Value[];
  expect?: number;
}

/** What the dispatcher must do in the same transaction. */
export type Intent =
  | { dispatch: 'enqueue'; entry: DispatchEntry }
  /** The attempt is over: its entry goes away. Without an entry held by `holder` this is a conflict. */
  | { dispatch: 'settle'; attemptId: string; holder?: string; queue?: string }
  /** Takes a waiting or held entry away; nothing to take away is no conflict. Its queue, where known, saves a search. */
  | { dispatch: 'withdraw'; attemptId: string; queue?: string };

export interface DispatchEntry {
  attemptId: string;
  jobId: string;
  queue: string;
  /** Higher first; equal ones in order of submission. */
  priority: number;
  /** Epoch ms; not handed out before. 0: at once. */
  runAt: number;
}

/** Kept numbers, never counted: `scope` names the counter family, e.g. `queue:default` or `owner:me`. */
export interface Count {
  /** `part`: counted for this part of the scope as well, under `partScope`. */
  count: { scope: string; part?: string; key: string; delta: number };
}

/** The counters of a part of a scope: of one owner's jobs in a queue. */
export const partScope = (scope: string, part: string): string => `${scope}/${part}`;

/** A new event of a job. The store numbers it for all jobs: events of one transaction in the order of their steps. */
export interface Append {
  event: Omit<EventRow, 'cursor'>;
}

export type Step = Statement | Intent | Count | Append;

export type Commit =
  /** Rows of statements with RETURNING, by step index. */
  | { applied: true; rows: Row[][] }
  /** Nothing happened: this step found another number of rows than it expected. */
  | { applied: false; step: number };

export interface ClaimRequest {
  /** In order; `limit`: at most so many attempts of this queue held at once. */
  queues: readonly { name: string; limit?: number }[];
  limit: number;
  /** How many more to look at than are wanted, because a plan may refuse some. */
  lookahead?: number;
  holder: string;
  leaseMs: number;
  now: number;
}

export interface Candidate extends DispatchEntry {
  /** The job's row as the ledger has it, read in the same transaction. */
  readonly job: Row;
  /** `job` is read only when asked for: whoever knows the job saves that. A plan on an older row is asked for again. */
  readonly unread?: true;
}

/** What to do with a candidate: start it with these steps, or leave it waiting until `runAt` (a limit was hit), or drop a stale entry. */
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
  /** Reads outside any command. Never hold an iterator: page with keysets. */
  read<T extends object = Row>(sql: string, params?: readonly Value[]): Promise<T[]>;
  /** One command = one short transaction (or one savepoint of a shared one). Resolves only after it is durable. */
  commit(steps: readonly Step[]): Promise<Commit>;
  /** Hands out waiting attempts. `plan` is pure and synchronous: it decides on the row, never does I/O. */
  claim(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Promise<Candidate[]>;
  /** Extends leases; answers those still held by `holder`. */
  heartbeat(
    attemptIds: readonly string[],
    holder: string,
    leaseUntil: number,
  ): Promise<Set<string>>;
  /** Attempts whose lease ran out. They stay until a command settles or withdraws them. */
  lost(now: number, limit: number): Promise<LostAttempt[]>;
  /** How many ready entries of its queue are taken before this one, counted up to a limit. */
  ahead(queue: string, attemptId: string, limit: number): Promise<number>;
  /** After a gap (suspend, outage): every holder gets a fresh lease first. */
  renewAll(leaseUntil: number): Promise<void>;
  /** Where several servers sweep: notes that one did now, and answers when any of them did before. */
  swept?(now: number): Promise<number | undefined>;
  /** Makes due entries ready; answers the queues that got some and when the next one is due. */
  promote(now: number): Promise<{ queues: string[]; nextAt: number | undefined }>;
  /** Events after a global cursor, never past an uncommitted one. */
  events(after: number, limit: number): Promise<EventRow[]>;
  /** The cursor of the newest readable event. */
  eventCursor(): Promise<number>;
  counters(scope: string): Promise<Record<string, number>>;
  /** Called after every commit that touched the ledger, here or (cluster) on another node; coalesced. */
  onCommit(listener: () => void): () => void;
  /** Called when a queue may have something to claim. */
  onReady(listener: (queue: string) => void): () => void;
  migrate(migrations: readonly Migration[]): Promise<void>;
  /** Where migrations are a step of their own (`errand migrate`): a start refuses a schema that does not fit. */
  check?(migrations: readonly Migration[]): Promise<void>;
  backup(path: string): Promise<void>;
  /** Bytes of the database, for retention and doctor. */
  size(): Promise<number>;
  close(): Promise<void>;
}

/** What reads a store without changing it. */
export type StoreReader = Pick<Store, 'engine' | 'read'>;

/** Something that `errand store check` found. */
export interface Problem {
  check: 'pages' | 'rows' | 'counters' | 'books';
  /** What is wrong: the table, the row and the expected value. */
  text: string;
}

/** Columns that hold JSON, by table. */
export type JsonColumns = Readonly<Record<string, readonly string[]>>;

/** Migrations are append-only, numbered per owner: `jobs/1`, `web/2`. Never edited once released. */
export interface Migration {
  id: string;
  statements(ddl: Ddl): string[];
}

/** A search index is another thing in each engine: a copy leaves it out, and its kind fills it again. */
export interface SearchIndex {
  table: string;
  /** The statement after which its kind finds that everything is to be indexed. */
  refill: string;
}

/** The few words in which the two databases' DDL differs. */
export interface Ddl {
  engine: 'sqlite' | 'postgres';
  /** 64-bit integer. */
  int: string;
  blob: string;
  /** A column that numbers rows by itself, primary key. */
  serial: string;
  /** After the closing bracket of CREATE TABLE. */
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
