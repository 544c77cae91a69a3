// Stores the completed steps of a job with their results. After a kill, the next server reads them instead of repeating and
// paying for them again.
import { decodeJsonOr } from '../../../runtime/json.ts';
import type { Row, Step as Statement, Store } from '../../../store/store.ts';

export interface StepRow {
  n: number;
  key: string;
  /** The trial of the job. An explicit retry starts a new trial and repeats failed steps. */
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

/** A step that is already stored causes a conflict, so it is charged only once. */
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
