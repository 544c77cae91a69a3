// The operations on ended jobs: rerun_job and delete_job.
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { defineOperation, type Operation } from '../../operation.ts';
import { keptReason } from '../changing.ts';
import { isFinal } from '../job.ts';
import type { Jobs } from '../jobs.ts';
import type { JobOperationsDeps } from './deps.ts';
import { jobId, jobView } from '../../contracts/jobs.ts';
import type { Retention } from '../retention.ts';
import { jobText } from '../job-text.ts';
import { ownJob, viewJob } from '../view.ts';

export function rerunJob({ jobs, clock }: JobOperationsDeps): Operation {
  return defineOperation({
    name: 'rerun_job',
    title: 'Rerun job',
    description:
      'Runs an ended job again as a new job with a new id: same kind, input, name, tags and queue. Use it to repeat work that completed; its side effects happen again. ' +
      'To retry a failed job with the same id use retry_job. Webhooks, dependencies and idempotency keys are not repeated. Escrow jobs are refused. Follow the new job with wait_for_jobs.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    input: z.object({ id: jobId }),
    output: jobView.extend({ rerunOf: z.string().describe('Id of the job it repeats') }),
    http: { method: 'POST', path: '/api/jobs/{id}/rerun' },
    cli: {
      words: ['rerun'],
      args: ['id'],
      summary: 'run an ended job again as a new job',
      about:
        'Runs an ended job again as a new job with a new id and the same command or input, name, tags and queue. To retry a failed job with the same id use `errand retry`.',
      examples: ['errand rerun tests', 'errand wait @last'],
      text: (output) => (output as { id: string }).id,
    },
    startsJob: (view) => view.id,
    text: (view) => `${jobText(jobs, view)}\nrerun of ${view.rerunOf}`,
    run: async (input, context) => {
      const job = await ownJob(jobs, input.id, context.caller);
      const kind = jobs.kind(job.kind);
      if (!kind.rerun)
        throw new AppError('wrongState', `Jobs of kind ${job.kind} cannot be rerun.`, {
          hint: 'Start a new job with the operation that created this one.',
        });
      if (!isFinal(job.status))
        throw new AppError('wrongState', `${job.id} has not ended: it is ${job.status}.`, {
          hint: 'Wait for it with wait_for_jobs, or stop it with cancel_job.',
          data: { status: job.status },
        });
      const next = await kind.rerun(job, context);
      return { ...(await viewJob(jobs, next, clock.now())), rerunOf: job.id };
    },
  });
}

export function deleteJob(jobs: Jobs, retention: Pick<Retention, 'forget'>): Operation {
  return defineOperation({
    name: 'delete_job',
    title: 'Delete job',
    description:
      'Deletes an ended job permanently, with its output, result, events and attempts. Use it to remove secrets that were printed or output that is no longer needed; retention removes old jobs automatically. ' +
      'Refused for jobs that have not ended (cancel_job first), pinned jobs (pin_job with pinned false first), escrow jobs and jobs another job depends on. There is no undo.',
    effect: 'destroy',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    input: z.object({ id: jobId }),
    output: z.object({ id: z.string(), deleted: z.literal(true) }),
    http: { method: 'DELETE', path: '/api/jobs/{id}' },
    cli: {
      words: ['rm'],
      args: ['id'],
      each: true,
      summary: 'delete ended jobs with their output',
      about:
        'Deletes ended jobs permanently, with their output, result and events. Refuses jobs that have not ended, pinned jobs and escrow jobs. There is no undo.',
      examples: ['errand rm tests', 'errand rm @last'],
      text: (output) => `${(output as { id: string }).id} deleted`,
    },
    text: ({ id }) => `${id} deleted with its output`,
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      const kept = await keptReason(jobs, job);
      if (kept)
        throw new AppError('wrongState', kept.message, {
          hint: kept.hint,
          data: { status: job.status },
        });
      if (await retention.forget([job.id])) return { id: job.id, deleted: true as const };
      throw new AppError('conflict', `${job.id} changed while it was being deleted.`, {
        hint: 'Check it with get_job, then try again.',
      });
    },
  });
}
