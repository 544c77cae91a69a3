// What a job has found and paid for, step by step, each written with its price: whoever goes on with the job after a kill
// finds it here instead of paying for it again.
import { decodeJsonOr } from '../../../runtime/json.ts';
import type { Row, Step as Statement, Store } from '../../../store/store.ts';

export interface StepRow {
  n: number;
  key: string;
  /** Which trial of the job it belongs to: one that was asked for again tries again what failed. */
  trial: number;
  step: unknown;
  found: unknown;
}

export class StepStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async list(jobId: string): Promise<StepRow[]> {
    const rows = await this.store.read<Row>(
      'SELECT n, key, trial, step, found FROM web_steps WHERE job_id = ? ORDER BY n',
      [jobId],
    );
    return rows.map(({ n, key, trial, step, found }) => ({
      n: Number(n),
      key: key as string,
      trial: Number(trial),
      step: decodeJsonOr<unknown>(step, null),
      found: found === null ? undefined : decodeJsonOr<unknown>(found, undefined),
    }));
  }

  async forget(jobIds: readonly string[]): Promise<void> {
    await this.store.commit(
      jobIds.map((id) => ({ sql: 'DELETE FROM web_steps WHERE job_id = ?', params: [id] })),
    );
  }
}

/** A step that somebody wrote already is a conflict: it is paid for once. */
export function insertStep(jobId: string, { n, key, trial, step, found }: StepRow): Statement {
  return {
    sql: `INSERT INTO web_steps (job_id, n, key, trial, step, found) VALUES (?, ?, ?, ?, ?, ?)
          ON CONFLICT (job_id, n) DO NOTHING`,
    params: [
      jobId, n, key, trial, JSON.stringify(step), found === undefined ? null : JSON.stringify(found),
    ], // prettier-ignore
    expect: 1,
  };
}
