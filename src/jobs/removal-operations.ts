// The operations after the end of a job: run it again as a new one, delete it with its output.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Operation } from '../operation.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { jobId, type JobOperationsNeeds } from './operation-needs.ts';
import type { Retention } from './retention.ts';
import { jobText } from './text.ts';
import { jobView, ownJob, viewJob } from './view.ts';

export function rerunJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'rerun_job',
    title: 'Rerun job',
    description:
      'Runs an ended job again as a new job with a new id: same kind, input, name, tags and queue. Use it to repeat work that completed; its side effects happen again. ' +
      'To continue a failed job under its own id use retry_job. Webhooks, dependencies and idempotency keys are not repeated. Escrow jobs are refused. Follow the new job with wait_for_jobs.',
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
        'Runs an ended job again as a new job with a new id, with the same command or input, name, tags and queue. To try a failed job again under its own id use `errand retry`.',
      examples: ['errand rerun tests', 'errand wait @last'],
      text: (output) => (output as { id: string }).id,
    },
    startsJob: (view) => view.id,
    text: (view) => `${jobText(jobs, view)}\nruns ${view.rerunOf} again`,
    run: async (input, context) => {
      const job = await ownJob(jobs, input.id, context.caller);
      const kind = jobs.kind(job.kind);
      if (!kind.rerun)
        throw new AppError('wrongState', `A job of kind ${job.kind} cannot be run again.`, {
          hint: 'Start a new one with the operation that made it.',
        });
      if (!isFinal(job.status))
        throw new AppError('wrongState', `${job.id} has not ended: it is ${job.status}.`, {
          hint: 'Wait for its end with wait_for_jobs, or stop it with cancel_job.',
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
      'Deletes an ended job for good, with its output, result, events and attempts. Use it to remove secrets that were printed or output that is no longer needed; retention removes old jobs by itself. ' +
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
        'Deletes ended jobs for good, with their output, result and events. A job that has not ended, a pinned job and an escrow job are refused. There is no undo.',
      examples: ['errand rm tests', 'errand rm @last'],
      text: (output) => `${(output as { id: string }).id} deleted`,
    },
    text: ({ id }) => `${id} deleted with its output`,
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      await refuseKept(jobs, job);
      if (await retention.forget([job.id])) return { id: job.id, deleted: true as const };
      throw new AppError('conflict', `${job.id} changed while it was deleted.`, {
        hint: 'Look at it with get_job, then try again.',
      });
    },
  });
}

async function refuseKept(jobs: Jobs, job: Job): Promise<void> {
  const refuse = (message: string, hint: string) => {
    throw new AppError('wrongState', message, { hint, data: { status: job.status } });
  };
  if (!isFinal(job.status))
    refuse(`${job.id} has not ended: it is ${job.status}.`, 'Stop it with cancel_job first.');
  if (jobs.kind(job.kind).keeps)
    refuse(`A job of kind ${job.kind} is never deleted.`, 'Its postings are part of the books.');
  if (job.pinned) refuse(`${job.id} is pinned.`, 'Unpin it first: pin_job with pinned false.');
  const parent = job.parentId === null ? undefined : await jobs.ledger.find(job.parentId);
  if (parent && !isFinal(parent.status))
    refuse(`${job.id} is a part of ${parent.id}, which has not ended.`, 'Delete it afterwards.');
  const [dependent] = await jobs.ledger.dependents(job.id);
  if (dependent !== undefined)
    refuse(`${dependent} depends on ${job.id}.`, `Delete ${dependent} first.`);
}
