// Reserved job names: which job last held a name.
import type { Step, Store } from '../../../store/store.ts';

/** Reserves names so that at most one job per name runs across all nodes. */
export class JobNames {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** Returns the job that last held the name, or an empty string. */
  async holder(owner: string, name: string): Promise<string> {
    const [row] = await this.store.read<{ id: string }>(
      'SELECT job_id AS id FROM command_names WHERE owner = ? AND name = ?',
      [owner, name],
    );
    return row?.id ?? '';
  }

  /** Conflicts if another job took the name after `before` was read. */
  take(name: { owner: string; name: string }, jobId: string, before: string): Step {
    return {
      sql: `INSERT INTO command_names (owner, name, job_id) VALUES (?, ?, ?)
            ON CONFLICT (owner, name) DO UPDATE SET job_id = excluded.job_id
            WHERE command_names.job_id = ?`,
      params: [name.owner, name.name, jobId, before],
      expect: 1,
    };
  }
}
