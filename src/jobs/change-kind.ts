// The kind of jobs that change many other jobs. It belongs to the core: change_jobs submits such a job if a change takes long.
// A repeated attempt starts again; jobs that were already changed are skipped.
import { changeMatching, type ChangeAction, type ChangeCounts } from './changing.ts';
import type { Jobs } from './jobs.ts';
import type { Kind } from './kind.ts';
import type { JobFilter } from './ledger.ts';
import type { Retention } from './retention.ts';

export const changeKindName = 'change';

export interface ChangeInput {
  action: ChangeAction;
  filter: JobFilter;
  maxSeq: number;
  matched: number;
}

const reportMs = 1000;

export function changeKind(
  jobs: Jobs,
  retention: Pick<Retention, 'forget'>,
  now: () => number,
): Kind {
  return {
    name: changeKindName,
    dispatched: true,
    retryable: false,
    cancellable: true,
    allows: 'change many jobs at a time',
    capacity: () => 2,
    summary: ({ input }) => {
      const { action, matched } = input as ChangeInput;
      return `${action} ${matched} jobs`;
    },
    run: async ({ job, signal, report }) => {
      const { action, filter, maxSeq, matched } = job.input as ChangeInput;
      let reportedAt = 0;
      const counts = await changeMatching(
        { jobs, retention },
        {
          action,
          filter,
          maxSeq,
          by: job.owner,
          since: job.createdAt,
          signal,
          // The filter contains the owner. Callers with other limits do not get here.
          isVisible: async ({ id }) => id !== job.id,
          onPage: async ({ matched: done }) => {
            if (now() - reportedAt < reportMs) return;
            reportedAt = now();
            await report({ progress: { done, total: matched, unit: 'jobs' } });
          },
        },
      );
      if (signal.aborted) return { type: 'cancelled', result: toResult(counts) };
      return { type: 'completed', result: toResult(counts) };
    },
  };
}

export const toResult = ({ matched, changed, skipped }: ChangeCounts) => ({
  matched,
  changed,
  skipped: [...skipped].map(([reason, count]) => ({ reason, count })),
});
