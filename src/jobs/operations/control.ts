// The operations that change a job: cancel, retry, pin.
import { AppError } from '../../errors.ts';
import { defineOperation, type Operation } from '../../operation.ts';
import { briefJob, briefJobSchema } from '../brief-view.ts';
import { isFinal } from '../job.ts';
import type { JobOperationsDeps } from './deps.ts';
import { ownJob, viewJob } from '../view.ts';
import { jobText, outputText } from '../job-text.ts';
import { viewWithOutput } from '../view-output.ts';
import { reportWait, limitWait } from '../wait-progress.ts';
import { cancelJob, retryJob, pinJob } from '../../contracts/jobs.ts';

export function cancelJobOperation({
  jobs,
  clock,
  waiting,
  maxWaitMs,
  cancelMsDefault,
}: JobOperationsDeps): Operation {
  return defineOperation({
    ...cancelJob,
    title: 'Cancel job',
    description:
      'Stops a job with all its processes; use it instead of kill in a shell, for work you no longer need. ' +
      'A queued job never runs; a running one is asked to stop and killed after graceMs. On an ended command it ends the processes the command left running. To interrupt a command but keep the job, use send_input with ctrl-c. ' +
      'Returns when the job has ended, after 50 s at most. An ended job keeps its state and output. To run it again use retry_job.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    brief: { schema: briefJobSchema, of: (view) => briefJob(jobs, view) },
    http: { method: 'POST', path: '/api/jobs/{id}/cancel' },
    cli: {
      words: ['cancel'],
      args: ['id'],
      each: true,
      summary: 'stop jobs',
      about:
        'Stops jobs. A queued job never runs. A running job is asked to stop and is killed with all its processes after the grace period.',
      examples: ['errand cancel tests', 'errand cancel @last --grace 30s'],
      text: (output) => cancelText(output as { id: string; status: string }),
    },
    text: (view) =>
      jobText(jobs, view) + (view.alreadyEnded ? `\n${alreadyEndedText(view.endedProcesses)}` : ''),
    run: async (input, { caller, signal }) => {
      const job = await ownJob(jobs, input.id, caller);
      const kind = jobs.findKind(job.kind);
      if (kind?.cancellable === false && !isFinal(job.status)) {
        throw new AppError(
          'wrongState',
          `A job of kind ${job.kind} cannot be cancelled. Only the rules of its kind end it.`,
          {
            hint: 'Call get_job to see the actions available to you.',
          },
        );
      }
      if (isFinal(job.status)) {
        const ended = (await kind?.endOrphanedProcesses?.(job, input.graceMs)) ?? 0;
        return {
          ...(await viewJob(jobs, job, clock.now())),
          alreadyEnded: true,
          ...(ended > 0 ? { endedProcesses: ended } : {}),
        };
      }
      const grace = input.graceMs ?? cancelMsDefault;
      const cancelled = await jobs.cancel(job.id, caller!.owner, input.reason, input.graceMs);
      if (!isFinal(cancelled.status)) {
        const stop = new AbortController();
        const forceMs = grace + cancelMsDefault;
        // The call returns before clients time out. With a long grace period it returns a job that is still stopping.
        const off = clock.after(Math.min(forceMs, maxWaitMs), () => stop.abort());
        const over = await waiting.waitForEnd(job.id, AbortSignal.any([signal, stop.signal]));
        off();
        if (!over && stop.signal.aborted && forceMs <= maxWaitMs) await jobs.forceCancel(job.id);
      }
      return viewJob(jobs, await jobs.get(job.id), clock.now());
    },
  });
}

function alreadyEndedText(endedProcesses = 0): string {
  if (endedProcesses === 0) return 'The job had already ended. Nothing was changed.';
  return `The job had already ended. Orphaned processes that were ended: ${endedProcesses}.`;
}

function cancelText(view: {
  id: string;
  status: string;
  cancelling?: boolean;
  alreadyEnded?: boolean;
  endedProcesses?: number;
}): string {
  if (!view.alreadyEnded)
    return `${view.id} ${view.status}${view.cancelling ? ', still stopping' : ''}`;
  const { id, status, endedProcesses } = view;
  return endedProcesses
    ? `${id} had already ended (${status}); ended ${endedProcesses} orphaned processes`
    : `${id} had already ended (${status}); nothing to cancel`;
}

export function retryJobOperation({
  jobs,
  clock,
  waiting,
  maxWaitMs,
}: JobOperationsDeps): Operation {
  return defineOperation({
    ...retryJob,
    title: 'Retry job',
    description:
      'Runs a failed, timed-out or cancelled job again with the same id and input; use it instead of repeating the command in a shell. ' +
      'Use it once the cause is fixed (file, network). Its side effects happen again. Completed and running jobs are refused; to change the command, start a new job. Earlier attempts stay readable (get_job with includeAttempts). ' +
      'Returns immediately, or with waitMs the result. Continue with wait_for_jobs.',
    effect: 'destroy',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    brief: { schema: briefJobSchema, of: (view) => briefJob(jobs, view) },
    http: { method: 'POST', path: '/api/jobs/{id}/retry' },
    cli: {
      words: ['retry'],
      args: ['id'],
      each: true,
      summary: 'retry failed jobs',
      about:
        'Runs failed, timed-out or cancelled jobs again as a new attempt with the same id. To repeat a completed job use `errand rerun`.',
    },
    startsJob: (view) => (isFinal(view.status) ? undefined : view.id),
    text: (view) => jobText(jobs, view) + outputText(view),
    run: async (input, context) => {
      const { caller, signal } = context;
      const { id } = await ownJob(jobs, input.id, caller);
      const retried = await jobs.retry(id, caller!.owner);
      if (input.waitMs <= 0) return viewJob(jobs, retried, clock.now());
      const stopProgress = reportWait(context, [id], { jobs, clock });
      const timeoutMs = limitWait(input.waitMs, context, maxWaitMs);
      const until = jobs.findKind(retried.kind)?.returnsWhen?.(retried) ?? {};
      await waiting
        .wait({ ids: [id], mode: 'any', timeoutMs, signal, until })
        .finally(stopProgress);
      return viewWithOutput(jobs, await jobs.get(id), { now: clock.now(), caller });
    },
  });
}

export function pinJobOperation({ jobs, clock }: JobOperationsDeps): Operation {
  return defineOperation({
    ...pinJob,
    title: 'Pin job',
    description:
      'Exempts an ended job and its files from the retention limits (pinned true), or ends the exemption (pinned false). Use it for results you need in weeks; retention never removes running jobs. Changes nothing else about the job. get_job shows whether it is pinned.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    brief: {
      schema: briefJobSchema,
      of: (view) => ({ ...briefJob(jobs, view), pinned: view.pinned ?? false }),
    },
    http: { method: 'POST', path: '/api/jobs/{id}/pin' },
    cli: {
      words: ['pin'],
      args: ['id'],
      summary: 'keep a job until you unpin it (--no-pinned)',
      about:
        'Exempts an ended job and its output from the retention limits. --no-pinned ends the exemption.',
    },
    text: (view) => jobText(jobs, view),
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      return viewJob(jobs, await jobs.setPinned(job.id, input.pinned), clock.now());
    },
  });
}
