// change_jobs: cancels, retries, pins or deletes all jobs that match a filter.
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { filterFields } from '../../contracts/jobs.ts';
import {
  defineOperation,
  isLimited,
  type Caller,
  type CliShape,
  type Operation,
} from '../../operation.ts';
import { changeKindName, toResult, type ChangeInput } from '../change-kind.ts';
import { changeActions, changeMatching } from '../changing.ts';
import { defaultRetry } from '../job.ts';
import type { JobFilter } from '../ledger.ts';
import type { Retention } from '../retention.ts';
import { countJobs } from '../scan.ts';
import { isOwn } from '../view.ts';
import type { JobOperationsDeps } from './deps.ts';
import { toJobFilter } from './filter.ts';

/** More jobs are changed by a job of their own. */
const maxInline = 500;
const maxIds = 1000;

interface Deps extends Pick<JobOperationsDeps, 'jobs' | 'clock'> {
  retention: Pick<Retention, 'forget'>;
}

const changeInput = z.strictObject({
  action: z.enum(changeActions),
  filter: z
    .strictObject({
      ids: z.array(z.string().max(40)).min(1).max(maxIds).optional().describe('Only these jobs'),
      ...filterFields,
      parent: z.string().max(40).optional().describe('Only children of this job id'),
    })
    .describe('As in list_jobs. All parts must match; {} matches all jobs'),
  dryRun: z.boolean().optional().describe('Change nothing, return the numbers'),
  expectedCount: z.int().min(0).optional().describe('`matched` of the dry run'),
});

const changeCli: CliShape = {
  words: ['change'],
  args: ['action'],
  summary: 'cancel, retry, pin or delete all jobs that match a filter',
  about:
    'Changes all jobs that match --filter. --dry-run prints how many match; repeat the command with --expected-count to change them.',
  examples: [
    `errand change retry --filter '{"status":["failed"],"queue":"ci"}' --dry-run`,
    `errand change retry --filter '{"status":["failed"],"queue":"ci"}' --expected-count 12`,
  ],
};

export function changeJobs({ jobs, clock, retention }: Deps): Operation {
  return defineOperation({
    name: 'change_jobs',
    title: 'Change jobs',
    description:
      'Cancels, retries, pins, unpins or deletes all jobs that match a filter. Call it with dryRun first: it returns the exact number of matching jobs and how many would change. Then call it with that number as expectedCount; it is rejected if the number has changed. Running jobs, pinned jobs and escrow jobs are never deleted. A change of more than 500 jobs runs as a job (id); follow it with wait_for_jobs. For one job use cancel_job, retry_job, pin_job or delete_job.',
    effect: 'destroy',
    openWorld: true,
    scope: 'run',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    toolsets: ['jobs'],
    input: changeInput,
    output: z.object({
      matched: z.number().describe('Jobs that match the filter'),
      changed: z.number().describe('Jobs that were changed, or would be'),
      skipped: z.array(z.object({ reason: z.string(), count: z.number() })),
      id: z.string().optional().describe('The job that makes the changes'),
    }),
    http: { method: 'POST', path: '/api/jobs/change' },
    cli: changeCli,
    startsJob: ({ id }) => id,
    run: async ({ action, filter: given, dryRun = false, expectedCount }, { caller }) => {
      const { ids, ...rest } = given;
      const filter: JobFilter = {
        ...toJobFilter(jobs, rest, caller!),
        ...(ids ? { ids: [...new Set(ids)] } : {}),
      };
      const maxSeq = await jobs.ledger.newestSeq();
      const request = {
        action,
        filter,
        maxSeq,
        by: caller!.owner,
        isVisible: (job: Parameters<typeof isOwn>[1]) => isOwn(jobs, job, caller),
      };
      if (dryRun)
        return toResult(await changeMatching({ jobs, retention }, { ...request, dryRun }));
      const matched = await count(filter, caller!, request);
      requireExpected(expectedCount, matched);
      if (matched <= maxInline)
        return toResult(
          await changeMatching({ jobs, retention }, { ...request, since: clock.now() }),
        );
      rejectLimited(caller!);
      const input: ChangeInput = { action, filter, maxSeq, matched };
      const { job } = await jobs.submit({
        kind: changeKindName,
        action,
        owner: caller!.owner,
        input,
        retry: { ...defaultRetry, maxAttempts: 10, maxLost: 10, backoffMs: 0 },
      });
      return { matched, changed: 0, skipped: [], id: job.id };
    },
  });

  /** A subject is not part of the filter, so each job is checked. */
  async function count(
    filter: JobFilter,
    caller: Caller,
    request: Omit<Parameters<typeof changeMatching>[1], 'dryRun'>,
  ): Promise<number> {
    if (caller.subject === undefined) return (await countJobs(jobs.store, filter, Infinity)).count;
    const counts = await changeMatching({ jobs, retention }, { ...request, dryRun: true });
    return counts.matched;
  }
}

function requireExpected(expectedCount: number | undefined, matched: number): void {
  if (expectedCount === undefined)
    throw new AppError('invalidInput', 'expectedCount is required.', {
      hint: 'Call change_jobs with dryRun first and pass its `matched` as expectedCount.',
      data: { matched },
    });
  if (expectedCount !== matched)
    throw new AppError('conflict', `${matched} jobs match, not ${expectedCount}.`, {
      hint: 'Nothing was changed. Check the jobs, then confirm the new number.',
      data: { matched, expectedCount },
    });
}

/** The job would not know the limits of the key. */
function rejectLimited(caller: Caller): void {
  if (!isLimited(caller)) return;
  throw new AppError('limitExceeded', `A limited key changes at most ${maxInline} jobs per call.`, {
    hint: 'Narrow the filter, for example with `before`, or use a key without limits.',
    data: { limit: maxInline },
  });
}
