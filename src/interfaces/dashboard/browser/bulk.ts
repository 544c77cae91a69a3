// Changes of several jobs. The filter and the number of jobs are fixed by a dry run and sent again with the change, so that
// a change never affects jobs that nobody saw counted.
import { post } from './api.ts';

export type BulkAction = 'cancel' | 'retry' | 'pin' | 'delete';

export interface BulkTarget {
  /** Input of change_jobs: ids of selected rows, or a filter. */
  filter: Record<string, unknown>;
  /** Shown in the confirmation. */
  description: string;
}

interface BulkResult {
  matched: number;
  changed: number;
  skipped: { reason: string; count: number }[];
  id?: string;
}

export const bulkWords: Readonly<Record<BulkAction, { verb: string; done: string }>> = {
  cancel: { verb: 'Cancel', done: 'Cancelled' },
  retry: { verb: 'Retry', done: 'Retried' },
  pin: { verb: 'Pin', done: 'Pinned' },
  delete: { verb: 'Delete', done: 'Deleted' },
};

export const previewChange = (action: BulkAction, { filter }: BulkTarget): Promise<BulkResult> =>
  post('api/jobs/change', { action, filter, dryRun: true });

export const changeJobs = (
  action: BulkAction,
  { filter }: BulkTarget,
  expectedCount: number,
): Promise<BulkResult> => post('api/jobs/change', { action, filter, expectedCount });
