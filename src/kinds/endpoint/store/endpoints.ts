// SQL for endpoints, releases and workers: one function per statement, for both databases. Writes are returned as
// steps, so that they can share a transaction.
import { jobFromRow, openSql, type Job } from '../../../jobs/job.ts';
import { decodeJson, decodeListOr, isRecord } from '../../../runtime/json.ts';
import type { Row, Step, Store, Value } from '../../../store/store.ts';
import { endpointSpec, type EndpointSpec, type FieldChange } from '../spec.ts';

export interface EndpointRow {
  id: string;
  owner: string;
  spec: EndpointSpec;
  version: number;
  source: 'api' | 'config';
  createdAt: number;
  updatedAt: number;
  /** The stored spec cannot be decoded, so `spec` is empty. */
  undecodable?: true;
}

/** The row may hold any JSON. */
const isFieldChange = (value: unknown): value is FieldChange =>
  isRecord(value) && typeof value.field === 'string';

interface ReleaseRow {
  version: number;
  diff: FieldChange[];
  by: string;
  createdAt: number;
}

/** `external` workers connect on their own. The others are processes of a node. */
export type WorkerOrigin = 'process' | 'container' | 'external';
/** starting → ready (has polled) → draining (gets no more jobs) → ended. */
export type WorkerState = 'starting' | 'ready' | 'draining' | 'ended';

/** Ids are unique within an endpoint, because external workers choose their own. */
export interface WorkerName {
  endpointId: string;
  id: string;
}

export interface WorkerRow {
  id: string;
  endpointId: string;
  node: string | null;
  version: number;
  origin: WorkerOrigin;
  pid: number | null;
  processStart: string | null;
  keyId: string | null;
  state: WorkerState;
  reason: string | null;
  createdAt: number;
  readyAt: number | null;
  seenAt: number | null;
  endedAt: number | null;
  exitCode: number | null;
  exitSignal: string | null;
}

export interface DueJob {
  id: string;
  attemptId: string;
  queue: string;
  holder: string | null;
  startedAt: number | null;
  deadlineAt: number | null;
  expiresAt: number | null;
  cancelRequestedAt: number | null;
}

export class EndpointStore {
  readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async endpoints(): Promise<EndpointRow[]> {
    const rows = await this.store.read('SELECT * FROM endpoints ORDER BY created_at, id');
    return rows.map(endpointFromRow);
  }

  insertEndpoint(row: EndpointRow): Step[] {
    return [
      {
        sql: `INSERT INTO endpoints (id, owner, spec, version, source, created_at, updated_at)
              VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
        params: [
          row.id,
          row.owner,
          JSON.stringify(row.spec),
          row.version,
          row.source,
          row.createdAt,
          row.updatedAt,
        ],
        expect: 1,
      },
    ];
  }

  updateEndpoint(before: EndpointRow, after: EndpointRow): Step[] {
    return [
      {
        sql: `UPDATE endpoints SET spec = ?, version = ?, source = ?, updated_at = ?
              WHERE id = ? AND version = ? AND updated_at = ?`,
        params: [
          JSON.stringify(after.spec),
          after.version,
          after.source,
          after.updatedAt,
          after.id,
          before.version,
          before.updatedAt,
        ],
        expect: 1,
      },
    ];
  }

  insertRelease(id: string, release: ReleaseRow): Step[] {
    return [
      {
        sql: `INSERT INTO endpoint_releases (endpoint_id, version, diff, made_by, created_at)
              VALUES (?, ?, ?, ?, ?)`,
        params: [id, release.version, JSON.stringify(release.diff), release.by, release.createdAt],
      },
    ];
  }

  deleteEndpoint(id: string): Step[] {
    return [
      { sql: 'DELETE FROM endpoints WHERE id = ?', params: [id], expect: 1 },
      { sql: 'DELETE FROM endpoint_releases WHERE endpoint_id = ?', params: [id] },
    ];
  }

  async releases(id: string, limit: number): Promise<ReleaseRow[]> {
    const rows = await this.store.read(
      `SELECT version, diff, made_by, created_at FROM endpoint_releases
       WHERE endpoint_id = ? ORDER BY version DESC LIMIT ?`,
      [id, limit],
    );
    return rows.map((row) => ({
      version: row.version as number,
      diff: decodeListOr<FieldChange>(row.diff, []).filter(isFieldChange),
      by: row.made_by as string,
      createdAt: row.created_at as number,
    }));
  }

  insertWorker(row: WorkerRow): Step[] {
    return [
      {
        sql: `INSERT INTO endpoint_workers
                (id, endpoint_id, node, version, origin, pid, process_start, key_id, state, created_at, ready_at, seen_at)
              VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
        params: [
          row.id,
          row.endpointId,
          row.node,
          row.version,
          row.origin,
          row.pid,
          row.processStart,
          row.keyId,
          row.state,
          row.createdAt,
          row.readyAt,
          row.seenAt,
        ],
      },
    ];
  }

  workerProcess(worker: WorkerName, pid: number, processStart: string | undefined): Step[] {
    return [
      {
        sql: 'UPDATE endpoint_workers SET pid = ?, process_start = ? WHERE endpoint_id = ? AND id = ?',
        params: [pid, processStart ?? null, worker.endpointId, worker.id],
      },
    ];
  }

  /** An external worker that was given up has returned. */
  reviveWorker(worker: WorkerName, seenAt: number): Step[] {
    return [
      {
        sql: `UPDATE endpoint_workers SET state = 'ready', ended_at = NULL, reason = NULL, seen_at = ?
              WHERE endpoint_id = ? AND id = ? AND origin = 'external'`,
        params: [seenAt, worker.endpointId, worker.id],
      },
    ];
  }

  workerState(worker: WorkerName, state: WorkerState, seenAt: number): Step[] {
    const ready = state === 'ready' ? ', ready_at = coalesce(ready_at, ?)' : '';
    return [
      {
        sql: `UPDATE endpoint_workers SET state = ?, seen_at = ?${ready}
              WHERE endpoint_id = ? AND id = ? AND ended_at IS NULL`,
        params: [state, seenAt, ...(ready ? [seenAt] : []), worker.endpointId, worker.id],
      },
    ];
  }

  workerEnded(
    worker: WorkerName,
    end: { at: number; reason: string; exitCode: number | null; exitSignal: string | null },
  ): Step[] {
    return [
      {
        sql: `UPDATE endpoint_workers SET state = 'ended', ended_at = ?, reason = ?, exit_code = ?,
                exit_signal = ? WHERE endpoint_id = ? AND id = ? AND ended_at IS NULL`,
        params: [end.at, end.reason, end.exitCode, end.exitSignal, worker.endpointId, worker.id],
      },
    ];
  }

  async liveWorkers(endpointId?: string): Promise<WorkerRow[]> {
    const one = endpointId === undefined ? '' : 'AND endpoint_id = ?';
    const rows = await this.store.read(
      `SELECT * FROM endpoint_workers WHERE ended_at IS NULL ${one} ORDER BY created_at, id`,
      endpointId === undefined ? [] : [endpointId],
    );
    return rows.map(workerFromRow);
  }

  async endedWorkers(endpointId: string, limit: number): Promise<WorkerRow[]> {
    const rows = await this.store.read(
      `SELECT * FROM endpoint_workers WHERE endpoint_id = ? AND ended_at IS NOT NULL
       ORDER BY ended_at DESC LIMIT ?`,
      [endpointId, limit],
    );
    return rows.map(workerFromRow);
  }

  /** How long the newest workers that a server started took until they polled for work, in ms. */
  async startTimes(endpointId: string, limit: number): Promise<number[]> {
    const rows = await this.store.read<{ ms: number }>(
      `SELECT ready_at - created_at AS ms FROM endpoint_workers
       WHERE endpoint_id = ? AND ready_at IS NOT NULL AND origin <> 'external'
       ORDER BY created_at DESC LIMIT ?`,
      [endpointId, limit],
    );
    return rows.map(({ ms }) => Math.max(Number(ms), 0));
  }

  async worker({ endpointId, id }: WorkerName): Promise<WorkerRow | undefined> {
    const [row] = await this.store.read(
      'SELECT * FROM endpoint_workers WHERE endpoint_id = ? AND id = ?',
      [endpointId, id],
    );
    return row && workerFromRow(row);
  }

  /** Workers that ended long ago. Their rows and logs can be deleted. */
  oldWorkers(endedBefore: number, limit: number): Promise<WorkerName[]> {
    return this.store.read<WorkerName & object>(
      `SELECT endpoint_id AS "endpointId", id FROM endpoint_workers
       WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?`,
      [endedBefore, limit],
    );
  }

  forgetWorkers(workers: readonly WorkerName[]): Step[] {
    return workers.map(({ endpointId, id }) => ({
      sql: 'DELETE FROM endpoint_workers WHERE endpoint_id = ? AND id = ?',
      params: [endpointId, id],
    }));
  }

  /** Only the columns for a status response, because the input may be megabytes. */
  async statusJob(id: string): Promise<Job | undefined> {
    const [row] = await this.store.read(
      `SELECT id, kind, queue, status, stage, visibility, owner, result, error, facts, attempt, attempt_id,
         lost, holder, run_at, created_at, started_at, finished_at FROM jobs WHERE id = ?`,
      [id],
    );
    return row && jobFromRow(row);
  }

  /** Running jobs that are past a deadline, or whose cancel was not applied yet. */
  due(now: number, limit: number): Promise<DueJob[]> {
    return this.store.read<DueJob>(
      `SELECT id, attempt_id AS "attemptId", queue, holder, started_at AS "startedAt",
         deadline_at AS "deadlineAt", expires_at AS "expiresAt",
         cancel_requested_at AS "cancelRequestedAt"
       FROM jobs WHERE ${openSql} AND kind = 'endpoint'
         AND (deadline_at <= ? OR expires_at <= ? OR cancel_requested_at IS NOT NULL) LIMIT ?`,
      [now, now, limit],
    );
  }

  /** Queued jobs of an endpoint, oldest first. */
  async queuedIds(
    endpointId: string,
    { limit, owner }: { limit: number; owner?: string },
  ): Promise<string[]> {
    // The expression keeps the column out of index selection, so that the index on the queue is used.
    const ofOwner = owner === undefined ? '' : `AND owner || '' = ?`;
    const rows = await this.store.read<{ id: string }>(
      `SELECT id FROM jobs WHERE kind = 'endpoint' AND queue = ? AND status = 'queued' ${ofOwner}
       ORDER BY seq LIMIT ?`,
      [endpointId, ...(owner === undefined ? [] : [owner]), limit],
    );
    return rows.map(({ id }) => id);
  }

  /** Ended jobs past the retention of their endpoint. */
  async forgettableIds(endpointId: string, before: number, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ id: string }>(
      `SELECT id FROM jobs WHERE kind = 'endpoint' AND queue = ? AND finished_at < ? AND pinned = 0
       LIMIT ?`,
      [endpointId, before, limit],
    );
    return rows.map(({ id }) => id);
  }

  addRetry(jobId: string, key: string, now: number): Step {
    return {
      sql: `INSERT INTO endpoint_retries (job_id, retry_key, created_at) VALUES (?, ?, ?)
            ON CONFLICT DO NOTHING`,
      params: [jobId, key, now],
    };
  }

  async hasRetry(jobId: string, key: string): Promise<boolean> {
    const rows = await this.store.read(
      'SELECT 1 FROM endpoint_retries WHERE job_id = ? AND retry_key = ?',
      [jobId, key],
    );
    return rows.length > 0;
  }

  /** Holders of earlier attempts that ended without a report from the holder. */
  async lostHolders(jobId: string): Promise<string[]> {
    const rows = await this.store.read<{ holder: string }>(
      `SELECT holder FROM attempts WHERE job_id = ? AND holder IS NOT NULL
         AND (status IN ('cancelled', 'timed_out') OR error LIKE '{"code":"lost"%')`,
      [jobId],
    );
    return rows.map(({ holder }) => holder);
  }
}

function endpointFromRow(row: Row): EndpointRow {
  return {
    id: row.id as string,
    owner: row.owner as string,
    ...specOf(row.spec),
    version: row.version as number,
    source: row.source as EndpointRow['source'],
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
  };
}

/**
 * Fields that were added later get their defaults. A damaged endpoint runs nothing, but can be listed and deleted.
 */
function specOf(text: Value | undefined): Pick<EndpointRow, 'spec' | 'undecodable'> {
  const parsed = endpointSpec.safeParse(decodeJson(text)?.value);
  if (parsed.success) return { spec: parsed.data };
  return { spec: endpointSpec.parse({ maxWorkers: 0 }), undecodable: true };
}

function workerFromRow(row: Row): WorkerRow {
  return {
    id: row.id as string,
    endpointId: row.endpoint_id as string,
    node: row.node as string | null,
    version: row.version as number,
    origin: row.origin as WorkerOrigin,
    pid: row.pid as number | null,
    processStart: row.process_start as string | null,
    keyId: row.key_id as string | null,
    state: row.state as WorkerState,
    reason: row.reason as string | null,
    createdAt: row.created_at as number,
    readyAt: row.ready_at as number | null,
    seenAt: row.seen_at as number | null,
    endedAt: row.ended_at as number | null,
    exitCode: row.exit_code as number | null,
    exitSignal: row.exit_signal as string | null,
  };
}
