// Jobs on a remote: one row per attempt, written before anything is sent.
import { decodeRecordOr } from '../../../runtime/json.ts';
import type { Step, Store } from '../../../store/store.ts';
import { remote as remoteSchema, type Remote } from '../spec.ts';
import { addressOf } from '../remote/outcome.ts';

/**
 * intent → sending → sent (its id is known) → removed; unsure: sent without a response; cancel: to be cancelled on
 * the remote.
 */
type RemoteState = 'intent' | 'sending' | 'unsure' | 'sent' | 'cancel';

export interface RemoteRow {
  attemptId: string;
  jobId: string;
  endpointId: string;
  /** Before sending: the remote job to rerun, or null for a new one. */
  remoteId: string | null;
  /** Where it was sent; null before. */
  remote: Remote | null;
  state: RemoteState;
  tries: number;
  dueAt: number;
}

const columns = `attempt_id AS "attemptId", job_id AS "jobId", endpoint_id AS "endpointId",
  remote_id AS "remoteId", remote, state, tries, due_at AS "dueAt"`;

/** The holder of jobs that were sent to the remote of an endpoint. */
export const holderOf = (endpointId: string): string => `remote:${endpointId}`;

export class RemoteStore {
  readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  insert(
    row: Pick<RemoteRow, 'attemptId' | 'jobId' | 'endpointId' | 'dueAt'>,
    now: number,
  ): Step[] {
    return [
      {
        sql: `INSERT INTO endpoint_remote_jobs
                (attempt_id, job_id, endpoint_id, state, tries, due_at, created_at)
              VALUES (?, ?, ?, 'intent', 0, ?, ?) ON CONFLICT DO NOTHING`,
        params: [row.attemptId, row.jobId, row.endpointId, row.dueAt, now],
      },
    ];
  }

  /** Fenced by the state that was read: two nodes never take the same step. */
  async move(
    row: RemoteRow,
    to: Pick<RemoteRow, 'state' | 'dueAt'> &
      Partial<Pick<RemoteRow, 'remoteId' | 'remote' | 'tries'>>,
  ): Promise<boolean> {
    const remoteId = to.remoteId === undefined ? row.remoteId : to.remoteId;
    const { remote = row.remote } = to;
    const { applied } = await this.store.commit([
      {
        sql: `UPDATE endpoint_remote_jobs SET state = ?, due_at = ?, remote_id = ?, remote = ?, tries = ?
              WHERE attempt_id = ? AND state = ? AND due_at = ?`,
        params: [
          to.state,
          to.dueAt,
          remoteId,
          remote && JSON.stringify(remote),
          to.tries ?? row.tries,
          row.attemptId,
          row.state,
          row.dueAt,
        ],
        expect: 1,
      },
    ]);
    if (applied) Object.assign(row, to, { remoteId });
    return applied;
  }

  remove(attemptId: string): Step {
    return { sql: 'DELETE FROM endpoint_remote_jobs WHERE attempt_id = ?', params: [attemptId] };
  }

  /** In any state: marks it for cancellation, or for a poll now. */
  async makeDue(attemptId: string, state: 'cancel' | undefined, now: number): Promise<void> {
    const set = state === undefined ? '' : `state = 'cancel', tries = 0,`;
    await this.store.commit([
      {
        sql: `UPDATE endpoint_remote_jobs SET ${set} due_at = ? WHERE attempt_id = ?`,
        params: [now, attemptId],
      },
    ]);
  }

  /** Stores the remote id of a job that is being cancelled. */
  async saveRemoteId(attemptId: string, remoteId: string): Promise<void> {
    await this.store.commit([
      {
        sql: `UPDATE endpoint_remote_jobs SET remote_id = ? WHERE attempt_id = ? AND state = 'cancel'`,
        params: [remoteId, attemptId],
      },
    ]);
  }

  async makeJobDue(jobId: string, now: number): Promise<void> {
    await this.store.commit([
      {
        sql: 'UPDATE endpoint_remote_jobs SET due_at = ? WHERE job_id = ?',
        params: [now, jobId],
      },
    ]);
  }

  due(now: number, limit: number): Promise<RemoteRow[]> {
    return this.rows('WHERE due_at <= ? ORDER BY due_at LIMIT ?', [now, limit]);
  }

  all(): Promise<RemoteRow[]> {
    return this.rows('', []);
  }

  async find(attemptId: string): Promise<RemoteRow | undefined> {
    return (await this.rows('WHERE attempt_id = ?', [attemptId]))[0];
  }

  private async rows(where: string, params: (string | number)[]): Promise<RemoteRow[]> {
    const rows = await this.store.read<Omit<RemoteRow, 'remote'> & { remote: string | null }>(
      `SELECT ${columns} FROM endpoint_remote_jobs ${where}`,
      params,
    );
    return rows.map((row) => ({
      ...row,
      // A damaged row counts as sent to the current remote of its endpoint.
      remote: remoteSchema.safeParse(decodeRecordOr(row.remote, null)).data ?? null,
    }));
  }

  async anyOf(endpointId: string): Promise<boolean> {
    const sql = 'SELECT 1 FROM endpoint_remote_jobs WHERE endpoint_id = ? LIMIT 1';
    return (await this.store.read(sql, [endpointId])).length > 0;
  }

  /** Counts jobs of an endpoint that are being sent or wait in the remote's queue. */
  async waitingThere(endpointId: string): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM endpoint_remote_jobs r JOIN jobs j ON j.id = r.job_id
       WHERE r.endpoint_id = ? AND j.attempt_id = r.attempt_id AND j.status = 'running'
         AND j.stage IN ('remote', 'remoteQueue')`,
      [endpointId],
    );
    return Number(row!.n);
  }

  async any(): Promise<boolean> {
    return (await this.store.read('SELECT 1 FROM endpoint_remote_jobs LIMIT 1')).length > 0;
  }
}

/** The remote of a job: where it was sent, or before that the current remote of its endpoint. */
export function remoteOf(
  { remote, state }: Pick<RemoteRow, 'remote' | 'state'>,
  now: Remote | undefined,
): Remote | undefined {
  if (remote === null || state === 'intent') return now;
  // The same remote may have a new key or timeout.
  return now && addressOf(now) === addressOf(remote) ? now : remote;
}
