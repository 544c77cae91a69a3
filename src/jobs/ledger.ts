// Read access to the ledger: one method per query. Only changes.ts and jobs.ts write.
import { decodeJsonOr } from '../runtime/json.ts';
import type { EventRow, Row, Store, Value } from '../store/store.ts';
import { DependentsReader } from './dependents.ts';
import {
  brokenSql,
  brokenStatuses,
  jobFromRow,
  openSql,
  openStatuses,
  type Job,
  type JobError,
} from './job.ts';
import type { Status } from '../contracts/jobs.ts';

export interface JobFilter {
  ids?: readonly string[];
  owner?: string;
  statuses?: readonly Status[];
  kinds?: readonly string[];
  queue?: string;
  queues?: readonly string[];
  name?: string;
  tags?: readonly string[];
  parentId?: string;
  /** Substring of the name, input or error. Case-insensitive (in SQLite for ASCII only). */
  text?: string;
  createdAfter?: number;
  createdBefore?: number;
}

export interface Attempt {
  attempt: number;
  attemptId: string;
  status: string;
  holder: string | null;
  /** The node it ran on. */
  node: string | null;
  error: JobError | null;
  result: unknown;
  facts: Record<string, unknown>;
  startedAt: number | null;
  finishedAt: number | null;
}

export interface QueueRow {
  kind: string;
  name: string;
  maxConcurrency: number | null;
  paused: boolean;
}

type JobState = Pick<Job, 'id' | 'attemptId' | 'status' | 'cancelRequestedAt'>;

export class Ledger {
  private readonly store: Store;
  private readonly dependentsReader: DependentsReader;

  constructor(store: Store) {
    this.store = store;
    this.dependentsReader = new DependentsReader(store);
  }

  async find(id: string): Promise<Job | undefined> {
    const [row] = await this.store.read('SELECT * FROM jobs WHERE id = ?', [id]);
    return row && jobFromRow(row);
  }

  async findMany(ids: readonly string[]): Promise<Job[]> {
    if (ids.length === 0) return [];
    const rows = await this.store.read(
      `SELECT * FROM jobs WHERE id IN (${ids.map(() => '?').join(', ')})`,
      [...ids],
    );
    return rows.map(jobFromRow);
  }

  /** Jobs whose id begins with `prefix`, newest first. */
  async findByPrefix(
    prefix: string,
    { limit, before = Number.MAX_SAFE_INTEGER }: { limit: number; before?: number },
  ): Promise<{ jobs: Job[]; next: number | undefined }> {
    // A range query uses the index. z is the highest character in an id.
    const rows = await this.store.read<Row>(
      'SELECT * FROM jobs WHERE id >= ? AND id <= ? AND seq < ? ORDER BY seq DESC LIMIT ?',
      [prefix, `${prefix}${'z'.repeat(16)}`, before, limit],
    );
    const next = rows.length === limit ? (rows.at(-1)!.seq as number) : undefined;
    return { jobs: rows.map(jobFromRow).filter(({ id }) => id.startsWith(prefix)), next };
  }

  /** Only the state of jobs, because heartbeats read it for every running job. */
  async states(ids: readonly string[]): Promise<JobState[]> {
    if (ids.length === 0) return [];
    return this.store.read<JobState>(
      `SELECT id, attempt_id AS "attemptId", status, cancel_requested_at AS "cancelRequestedAt"
        FROM jobs WHERE id IN (${ids.map(() => '?').join(', ')})`,
      [...ids],
    );
  }

  async findByKey(owner: string, key: string): Promise<Job | undefined> {
    const [row] = await this.store.read(
      'SELECT * FROM jobs WHERE owner = ? AND idempotency_key = ?',
      [owner, key],
    );
    return row && jobFromRow(row);
  }

  /**
   * Newest first, or oldest first. `before` or `after` is the cursor of the previous page. `cursors` contains one cursor per job, for pages that are
   * truncated.
   */
  async list(
    filter: JobFilter,
    page: { limit: number; before?: number; after?: number; ascending?: boolean },
  ): Promise<{ jobs: Job[]; next: number | undefined; cursors: number[] }> {
    const where: string[] = [];
    const params: Value[] = [];
    const add = (sql: string, ...values: Value[]) => {
      where.push(sql);
      params.push(...values);
    };
    if (page.before !== undefined) add('seq < ?', page.before);
    if (page.after !== undefined) add('seq > ?', page.after);
    filterSql(filter, add);
    const rows = await this.store.read<Row>(
      `SELECT * FROM jobs ${where.length > 0 ? `WHERE ${where.join(' AND ')}` : ''} ORDER BY seq ${page.ascending ? 'ASC' : 'DESC'} LIMIT ?`,
      [...params, page.limit + 1],
    );
    const shown = rows.slice(0, page.limit);
    const next = rows.length > page.limit ? (shown.at(-1)!.seq as number) : undefined;
    return { jobs: shown.map(jobFromRow), next, cursors: shown.map((row) => row.seq as number) };
  }

  async newestSeq(): Promise<number> {
    const [row] = await this.store.read<{ seq: number | null }>('SELECT max(seq) AS seq FROM jobs');
    return row?.seq ?? 0;
  }

  /** Jobs by their position in the submission order. */
  async findBySeq(seqs: readonly number[]): Promise<Map<number, Job>> {
    if (seqs.length === 0) return new Map();
    const rows = await this.store.read<Row>(
      `SELECT * FROM jobs WHERE seq IN (${seqs.map(() => '?').join(', ')})`,
      [...seqs],
    );
    return new Map(rows.map((row) => [row.seq as number, jobFromRow(row)]));
  }

  async attempts(jobId: string): Promise<Attempt[]> {
    const rows = await this.store.read<Row>(
      'SELECT * FROM attempts WHERE job_id = ? ORDER BY attempt',
      [jobId],
    );
    return rows.map((row) => ({
      attempt: row.attempt as number,
      attemptId: row.attempt_id as string,
      status: row.status as string,
      holder: row.holder as string | null,
      node: (row.node ?? row.holder) as string | null,
      error: json(row.error) as JobError | null,
      result: json(row.result),
      facts: (json(row.facts) ?? {}) as Record<string, unknown>,
      startedAt: row.started_at as number | null,
      finishedAt: row.finished_at as number | null,
    }));
  }

  events(jobId: string, after: number, limit: number): Promise<EventRow[]> {
    return this.store.read<EventRow>(
      `SELECT cursor, job_id AS "jobId", n, type, at, data FROM events
       WHERE job_id = ? AND n > ? ORDER BY n LIMIT ?`,
      [jobId, after, limit],
    );
  }

  /** Running jobs of a holder, or of all holders. */
  async running(filter: { holder?: string; kinds?: readonly string[] } = {}): Promise<Job[]> {
    const params: Value[] = [];
    let where = openSql;
    if (filter.holder !== undefined) {
      where += ' AND holder = ?';
      params.push(filter.holder);
    }
    if (filter.kinds) {
      where += ` AND kind IN (${filter.kinds.map(() => '?').join(', ')})`;
      params.push(...filter.kinds);
    }
    const rows = await this.store.read(`SELECT * FROM jobs WHERE ${where} ORDER BY seq`, params);
    return rows.map(jobFromRow);
  }

  async expiredIds(now: number, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ id: string }>(
      `SELECT id FROM jobs WHERE status = 'queued' AND expires_at IS NOT NULL AND expires_at <= ?
       ORDER BY expires_at LIMIT ?`,
      [now, limit],
    );
    return rows.map(({ id }) => id);
  }

  /** Queued jobs with dependencies that have already ended. */
  endedDependencies(limit: number): Promise<{ jobId: string; afterId: string; status: Status }[]> {
    return this.store.read(
      `SELECT d.job_id AS "jobId", d.after_id AS "afterId", a.status FROM jobs j
       JOIN dependencies d ON d.job_id = j.id JOIN jobs a ON a.id = d.after_id
       WHERE j.waiting_for > 0 AND j.status = 'queued'
         AND a.status IN ('completed', 'failed', 'cancelled', 'timed_out') LIMIT ?`,
      [limit],
    );
  }

  dependents(afterId: string): Promise<string[]> {
    return this.dependentsReader.find(afterId);
  }

  dependenciesOf(jobId: string): Promise<{ afterId: string; status: Status }[]> {
    return this.store.read(
      `SELECT d.after_id AS "afterId", a.status FROM dependencies d JOIN jobs a ON a.id = d.after_id
       WHERE d.job_id = ?`,
      [jobId],
    );
  }

  async queue(kind: string, name: string): Promise<QueueRow | undefined> {
    const [row] = await this.store.read<Row>('SELECT * FROM queues WHERE kind = ? AND name = ?', [
      kind,
      name,
    ]);
    return row && queueFromRow(row);
  }

  /** Number of running jobs of a kind. */
  async runningOf(kind: string): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM jobs WHERE ${openSql} AND kind = ?`,
      [kind],
    );
    return Number(row!.n);
  }

  async queues(kind?: string): Promise<QueueRow[]> {
    const rows = await this.store.read<Row>(
      `SELECT * FROM queues ${kind === undefined ? '' : 'WHERE kind = ?'} ORDER BY kind, name`,
      kind === undefined ? [] : [kind],
    );
    return rows.map(queueFromRow);
  }
}

const queueFromRow = (row: Row): QueueRow => ({
  kind: row.kind as string,
  name: row.name as string,
  maxConcurrency: row.concurrency_max as number | null,
  paused: row.paused === 1,
});

export function filterSql(filter: JobFilter, add: (sql: string, ...values: Value[]) => void): void {
  const list = (column: string, values: readonly string[]) =>
    add(`${column} IN (${values.map(() => '?').join(', ')})`, ...values);
  const partialIndex = filter.statuses && partialIndexSql(filter.statuses);
  if (partialIndex !== undefined) add(partialIndex);
  // Statuses are a closed set and are written as literals, because partial indexes are used only for literals.
  if (filter.statuses) add(`status IN (${filter.statuses.map((s) => `'${s}'`).join(', ')})`);
  // A partial index reads few rows. The expression hides the column, so that the planner does not choose the owner index.
  if (filter.owner !== undefined)
    add(`${partialIndex ? "owner || ''" : 'owner'} = ?`, filter.owner);
  if (filter.ids) list('id', paddedIds(filter.ids));
  if (filter.kinds) list('kind', filter.kinds);
  if (filter.queue !== undefined) add('queue = ?', filter.queue);
  if (filter.queues) list('queue', filter.queues);
  if (filter.name !== undefined) add('name = ?', filter.name);
  if (filter.parentId !== undefined) add('parent_id = ?', filter.parentId);
  // Tags match exactly. LIKE would ignore case in one of the engines.
  for (const tag of filter.tags ?? []) add(`replace(tags, ?, '') <> tags`, JSON.stringify(tag));
  if (filter.text !== undefined) {
    // The database lowercases both sides, because it may know fewer letters than JavaScript. In JSON, quotes are escaped
    // and the arguments of an argv are separate strings.
    const json = like(JSON.stringify(filter.text).slice(1, -1));
    add(
      `(lower(coalesce(name, '')) LIKE lower(?) ESCAPE '\\'
        OR replace(lower(coalesce(input, '')), '","', ' ') LIKE lower(?) ESCAPE '\\'
        OR lower(coalesce(error, '')) LIKE lower(?) ESCAPE '\\')`,
      like(filter.text),
      json,
      json,
    );
  }
  if (filter.createdAfter !== undefined) add('created_at >= ?', filter.createdAfter);
  if (filter.createdBefore !== undefined) add('created_at < ?', filter.createdBefore);
}

/** Few different lengths, so that few statements are prepared. */
export function paddedIds(ids: readonly string[]): string[] {
  if (ids.length === 0) return [];
  const length = 2 ** Math.ceil(Math.log2(ids.length));
  return [...ids, ...Array.from({ length: length - ids.length }, () => ids[0]!)];
}

/** The condition of the partial index that contains all jobs with these statuses, if any. */
function partialIndexSql(wanted: readonly Status[]): string | undefined {
  const within = (list: readonly Status[]) => wanted.every((status) => list.includes(status));
  if (within(openStatuses)) return openSql;
  return within(brokenStatuses) ? brokenSql : undefined;
}

const like = (text: string): string => `%${text.replaceAll(/[\\%_]/g, (c) => `\\${c}`)}%`;

const json = (value: Value | undefined): unknown =>
  value === null || value === undefined ? null : decodeJsonOr<unknown>(value, null);
