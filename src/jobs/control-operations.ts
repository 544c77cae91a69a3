// The operations that change a job: cancel, retry, pin.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Operation } from '../operation.ts';
import { isFinal } from './job.ts';
import { jobId, type JobOperationsNeeds } from './operation-needs.ts';
import { jobView, ownJob, viewJob } from './view.ts';
import { jobText } from './text.ts';

export function cancelJob({
  jobs,
  clock,
  waiting,
  waitMsMax,
  cancelMsDefault,
}: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'cancel_job',
    title: 'Cancel job',
    description:
      'Stops a job: a queued one never runs, a running one is asked to stop and after graceMs forced to (for a command: the whole process tree). ' +
      'Use it for work that is no longer wanted. Waits until it is over (at most 50 s). A job that is over already stays as it is. To run it again later use retry_job. What it did so far stays readable.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    input: z.object({
      id: jobId,
      reason: z.string().max(500).optional().describe('Told in its history'),
      graceMs: z
        .number()
        .int()
        .min(0)
        .max(600_000)
        .optional()
        .describe(
          'Time to stop by itself before it is forced; commands: 5 s by default. Call again with less to hurry',
        ),
    }),
    output: jobView.extend({
      alreadyEnded: z.boolean().optional().describe('It had ended before; nothing was changed'),
    }),
    http: { method: 'POST', path: '/api/jobs/{id}/cancel' },
    cli: {
      words: ['cancel'],
      args: ['id'],
      each: true,
      summary: 'stop jobs',
      about:
        'Stops jobs: a queued one never runs; a running one is asked to stop, and killed with all its processes when the grace time is over.',
      examples: ['errand cancel tests', 'errand cancel @last --grace 30s'],
      text: (output) => cancelText(output as { id: string; status: string }),
    },
    text: (view) =>
      jobText(jobs, view) +
      (view.alreadyEnded ? '\nIt had already ended; nothing was changed.' : ''),
    run: async (input, { caller, signal }) => {
      const job = await ownJob(jobs, input.id, caller);
      const kind = jobs.findKind(job.kind);
      if (kind?.cancellable === false && !isFinal(job.status)) {
        throw new AppError(
          'wrongState',
          `A job of kind ${job.kind} is ended only by its own rules.`,
          {
            hint: 'get_job shows which actions are open to you.',
          },
        );
      }
      if (isFinal(job.status))
        return { ...(await viewJob(jobs, job, clock.now())), alreadyEnded: true };
      const grace = input.graceMs ?? cancelMsDefault;
      const told = await jobs.cancel(job.id, caller!.owner, input.reason, input.graceMs);
      if (!isFinal(told.status)) {
        const stop = new AbortController();
        const forceMs = grace + cancelMsDefault;
        // A call never outlasts the patience of clients: with a long grace it answers that the job is being stopped.
        const off = clock.after(Math.min(forceMs, waitMsMax), () => stop.abort());
        const over = await waiting.ended(job.id, AbortSignal.any([signal, stop.signal]));
        off();
        if (!over && stop.signal.aborted && forceMs <= waitMsMax) await jobs.forceCancel(job.id);
      }
      return viewJob(jobs, await jobs.get(job.id), clock.now());
    },
  });
}

function cancelText(view: { id: string; status: string; alreadyEnded?: boolean }): string {
  return view.alreadyEnded
    ? `${view.id} had already ended (${view.status}); nothing to cancel`
    : `${view.id} ${view.status}`;
}

export function retryJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'retry_job',
    title: 'Retry job',
    description:
      'Runs an ended job again as a new attempt of the same id, with the same input. Only for jobs that failed, timed out or were cancelled; completed ones are refused. ' +
      'Use it after the cause is gone (network back, file fixed). Earlier attempts stay readable (get_job with includeAttempts). To change the command or input, start a new job instead. Follow it with wait_for_jobs.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    input: z.object({ id: jobId }),
    output: jobView,
    http: { method: 'POST', path: '/api/jobs/{id}/retry' },
    cli: {
      words: ['retry'],
      args: ['id'],
      each: true,
      summary: 'try failed jobs again',
      about:
        'Runs failed, timed out or cancelled jobs again as a new attempt under the same id. To repeat a completed job use `errand rerun`.',
    },
    startsJob: (view) => view.id,
    text: (view) => jobText(jobs, view),
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      return viewJob(jobs, await jobs.retry(job.id, caller!.owner), clock.now());
    },
  });
}

export function pinJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'pin_job',
    title: 'Pin job',
    description:
      'Keeps an ended job and its files beyond the retention limits (pinned true), or lets it go again (false). Use it for results you will need in weeks; running jobs are never forgotten anyway. Changes nothing else about the job. get_job shows whether it is pinned.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    input: z.object({ id: jobId, pinned: z.boolean().default(true) }),
    output: jobView,
    http: { method: 'POST', path: '/api/jobs/{id}/pin' },
    cli: {
      words: ['pin'],
      args: ['id'],
      summary: 'keep a job until it is unpinned (--no-pinned)',
      about:
        'Keeps an ended job and its output beyond the retention limits; --no-pinned lets it go.',
    },
    text: (view) => jobText(jobs, view),
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      return viewJob(jobs, await jobs.setPinned(job.id, input.pinned), clock.now());
    },
  });
}
