// count_jobs: how many jobs match a filter. Counts by status, kind and queue come from counters; other filters are counted up
// to a limit.
import { z } from 'zod';
import { filterFields, statuses, type Status } from '../../contracts/jobs.ts';
import { defineOperation, type Caller, type Operation } from '../../operation.ts';
import { partScope } from '../../store/store.ts';
import { counterScope } from '../intents.ts';
import type { Jobs } from '../jobs.ts';
import type { JobFilter } from '../ledger.ts';
import { countJobs as scan, type JobCount } from '../scan.ts';
import type { JobOperationsDeps } from './deps.ts';
import { toJobFilter } from './filter.ts';

const maxCount = 10_000;
/** The parts of a filter for which counters exist. */
const counted = new Set(['owner', 'statuses', 'kinds', 'queue', 'queues']);

export function countJobs({ jobs }: Pick<JobOperationsDeps, 'jobs'>): Operation {
  return defineOperation({
    name: 'count_jobs',
    title: 'Count jobs',
    description:
      'Counts the jobs that match the filters, in total and by status. Exact for filters by status, kind and queue; other filters are counted up to 10,000 (isExact is false then). Use it before change_jobs or instead of paging through list_jobs. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues'] },
    toolsets: ['jobs'],
    input: z.strictObject(filterFields),
    output: z.object({
      count: z.number(),
      isExact: z.boolean().describe('False: more jobs match than were counted'),
      byStatus: z.partialRecord(z.enum(statuses), z.number()),
    }),
    http: { method: 'GET', path: '/api/jobs/count' },
    cli: {
      words: ['count'],
      summary: 'number of jobs that match filters',
      examples: ['errand count --status failed --since 1d'],
      text: (output) => countText(output as JobCount),
    },
    run: async (input, { caller }) =>
      countMatching(jobs, toJobFilter(jobs, input, caller!), caller!),
  });
}

async function countMatching(jobs: Jobs, filter: JobFilter, caller: Caller): Promise<JobCount> {
  const hasCounters = Object.keys(filter).every((part) => counted.has(part));
  return hasCounters ? fromCounters(jobs, filter, caller) : scan(jobs.store, filter, maxCount);
}

async function fromCounters(jobs: Jobs, filter: JobFilter, caller: Caller): Promise<JobCount> {
  const byStatus: Partial<Record<Status, number>> = {};
  let count = 0;
  for (const { kind, name } of await jobs.ledger.queues()) {
    if (filter.kinds && !filter.kinds.includes(kind)) continue;
    if (filter.queue !== undefined && filter.queue !== name) continue;
    if (filter.queues && !filter.queues.includes(name)) continue;
    const scope = counterScope(kind, name);
    const counts = await jobs.store.counters(caller.admin ? scope : partScope(scope, caller.owner));
    for (const status of filter.statuses ?? statuses) {
      const n = counts[status] ?? 0;
      if (n === 0) continue;
      byStatus[status] = (byStatus[status] ?? 0) + n;
      count += n;
    }
  }
  return { count, isExact: true, byStatus };
}

function countText({ count, isExact, byStatus }: JobCount): string {
  const parts = Object.entries(byStatus).map(([status, n]) => `${status} ${n}`);
  const total = `${count}${isExact ? '' : '+'}`;
  return parts.length > 1 && isExact ? `${total} (${parts.join(', ')})` : total;
}
