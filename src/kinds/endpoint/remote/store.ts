// Jobs that were given to a remote: one row per attempt, written before anything is sent.
import { decodeJsonOr } from '../../../runtime/json.ts';
import type { Step, Store } from '../../../store/store.ts';
import type { Remote } from '../spec.ts';
import { addressOf } from './outcome.ts';

/** intent → sending → sent (its id is known) → gone; unsure: sent, but no answer came; cancel: to be stopped there. */
export type RemoteState = 'intent' | 'sending' | 'unsure' | 'sent' | 'cancel';

export interface RemoteRow {
  attemptId: string;
  jobId: string;
  endpointId: string;
  /** Before it is sent: the job there that is to run again; null for a new one. */
  remoteId: string | null;
  /** Where it was sent; null before. */
  remote: Remote | null;
  state: RemoteState;
  tries: number;
  dueAt: number;
}

const columns = `attempt_id AS "attemptId", job_id AS "jobId", endpoint_id AS "endpointId",
  remote_id AS "remoteId", remote, state, tries, due_at AS "dueAt"`;

/** Who holds the jobs of an endpoint that were given to its remote. */
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

  /** Fenced by the state it was read in: two nodes never do the same step. */
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

  /** Whatever state it is in: it is to be cancelled there, or looked at now. */
  async nudge(attemptId: string, state: 'cancel' | undefined, now: number): Promise<void> {
    const set = state === undefined ? '' : `state = 'cancel', tries = 0,`;
    await this.store.commit([
      {
        sql: `UPDATE endpoint_remote_jobs SET ${set} due_at = ? WHERE attempt_id = ?`,
        params: [now, attemptId],
      },
    ]);
  }

  /** The id there of one that is to be cancelled. */
  async learn(attemptId: string, remoteId: string): Promise<void> {
    await this.store.commit([
      {
        sql: `UPDATE endpoint_remote_jobs SET remote_id = ? WHERE attempt_id = ? AND state = 'cancel'`,
        params: [remoteId, attemptId],
      },
    ]);
  }

  async nudgeJob(jobId: string, now: number): Promise<void> {
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
      remote: row.remote === null ? null : decodeJsonOr<Remote | null>(row.remote, null),
    }));
  }

  async anyOf(endpointId: string): Promise<boolean> {
    const sql = 'SELECT 1 FROM endpoint_remote_jobs WHERE endpoint_id = ? LIMIT 1';
    return (await this.store.read(sql, [endpointId])).length > 0;
  }

  /** Jobs of an endpoint that are on their way there, or wait in its queue. */
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

/** The remote of a job: where it is once it was sent, under the name it had then; before, where its endpoint points now. */
export function remoteOf(
  { remote, state }: Pick<RemoteRow, 'remote' | 'state'>,
  now: Remote | undefined,
): Remote | undefined {
  if (remote === null || state === 'intent') return now;
  // The same place may have got another key or more patience.
  return now && addressOf(now) === addressOf(remote) ? now : remote;
}
