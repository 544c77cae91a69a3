// SQL for batches: drafts that are not queued yet, and job counts.
import { openSql } from '../../../jobs/job.ts';
import type { Step, Store } from '../../../store/store.ts';

export interface Draft {
  n: number;
  jobId: string;
  body: string;
}

interface OpenBatch {
  id: string;
  queue: string;
  cancelRequestedAt: number | null;
}

export class BatchStore {
  readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  addDrafts(batchId: string, drafts: readonly Draft[]): Step[] {
    return drafts.map(({ n, jobId, body }) => ({
      sql: 'INSERT INTO endpoint_batch_drafts (batch_id, n, job_id, body) VALUES (?, ?, ?, ?)',
      params: [batchId, n, jobId, body],
    }));
  }

  async hasDraft(batchId: string, jobId: string): Promise<boolean> {
    const rows = await this.store.read(
      'SELECT 1 FROM endpoint_batch_drafts WHERE batch_id = ? AND job_id = ?',
      [batchId, jobId],
    );
    return rows.length > 0;
  }

  removeDraft(batchId: string, jobId: string): Step {
    return {
      sql: 'DELETE FROM endpoint_batch_drafts WHERE batch_id = ? AND job_id = ?',
      params: [batchId, jobId],
      expect: 1,
    };
  }

  removeDrafts(batchId: string, upTo: number): Step {
    return {
      sql: 'DELETE FROM endpoint_batch_drafts WHERE batch_id = ? AND n <= ?',
      params: [batchId, upTo],
    };
  }

  drafts(batchId: string, limit: number, after = 0): Promise<Draft[]> {
    return this.store.read<Draft>(
      `SELECT n, job_id AS "jobId", body FROM endpoint_batch_drafts
       WHERE batch_id = ? AND n > ? ORDER BY n LIMIT ?`,
      [batchId, after, limit],
    );
  }

  async draftCount(batchId: string): Promise<{ count: number; last: number }> {
    const [row] = await this.store.read<{ count: number; last: number }>(
      `SELECT count(*) AS count, coalesce(max(n), 0) AS last FROM endpoint_batch_drafts
       WHERE batch_id = ?`,
      [batchId],
    );
    return row!;
  }

  /** Counts the jobs of a batch by status. */
  async counts(batchId: string): Promise<Record<string, number>> {
    const rows = await this.store.read<{ status: string; n: number }>(
      'SELECT status, count(*) AS n FROM jobs WHERE parent_id = ? GROUP BY status',
      [batchId],
    );
    return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
  }

  async childIds(
    batchId: string,
    page: { offset: number; limit: number; status?: string },
  ): Promise<string[]> {
    const status = page.status === undefined ? '' : 'AND status = ?';
    const rows = await this.store.read<{ id: string }>(
      `SELECT id FROM jobs WHERE parent_id = ? ${status} ORDER BY seq LIMIT ? OFFSET ?`,
      [batchId, ...(page.status === undefined ? [] : [page.status]), page.limit, page.offset],
    );
    return rows.map(({ id }) => id);
  }

  openBatches(): Promise<OpenBatch[]> {
    return this.store.read<OpenBatch>(
      `SELECT id, queue, cancel_requested_at AS "cancelRequestedAt" FROM jobs
       WHERE kind = 'batch' AND ${openSql}`,
    );
  }
}
