// The wait_for_jobs operation: one call that waits, instead of polling.
import { z } from 'zod';
import { defineOperation, type Operation } from '../../operation.ts';
import type { JobOperationsDeps } from './deps.ts';
import { briefJob, briefJobSchema } from '../brief-view.ts';
import { isRecord } from '../../runtime/json.ts';
import { isOwn, viewPublicJob, visibleJob } from '../view.ts';
import { type JobView, waitForJobs } from '../../contracts/jobs.ts';
import { excerptBytes, viewWithOutput } from '../view-output.ts';
import { jobText, outputText } from '../job-text.ts';
import { reportWait, limitWait } from '../wait-progress.ts';

const defaultWaitMs = 45_000;

export function waitForJobsOperation({
  jobs,
  waiting,
  clock,
  maxWaitMs,
}: JobOperationsDeps): Operation {
  return defineOperation({
    ...waitForJobs,
    title: 'Wait for jobs',
    description:
      'Waits for jobs to end, or for a running command to reach a condition, and returns their output; use it instead of sleeping or polling. ' +
      'Conditions: a text is printed, a port opens, a URL answers, output goes quiet, input is needed. Returns the end of the output of ended jobs (of failures the error lines), the matched line, and the latest line of running jobs. ' +
      'done: false means that time is up and the jobs still run: call it again with the same ids. Never changes a job. For one look use get_job. For more output use read_output.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ ids }) => ids },
    toolsets: ['default', 'jobs'],
    alwaysLoad: true,
    unlistedInput: ['timeoutMs'],
    brief: {
      schema: z.object({ done: z.boolean(), jobs: z.array(briefJobSchema) }),
      of: ({ done, reached, jobs: views, next }) => ({
        done,
        jobs: views.map((view) => ({ ...briefJob(jobs, view), ...briefHit(view, reached) })),
        ...(next ? { next } : {}),
      }),
    },
    http: { method: 'POST', path: '/api/wait' },
    cli: { words: ['wait'], args: ['ids'], custom: true },
    text: (out) =>
      [
        ...out.jobs.map(
          (view) => jobText(jobs, view) + reachedText(view, out.reached) + outputText(view),
        ),
        ...(out.next ? [out.next] : []),
      ].join('\n\n'),
    run: async (input, context) => {
      const ids = [...new Set(input.ids)];
      for (const id of ids) await visibleJob(jobs, id, context.caller);
      const { signal } = context;
      const asked = input.waitMs ?? input.timeoutMs ?? defaultWaitMs;
      const timeoutMs = limitWait(asked, context, maxWaitMs);
      const until = input.until ? { until: input.until } : {};
      const stopProgress = reportWait(context, ids, { jobs, clock });
      const result = await waiting
        .wait({ ids, mode: input.mode, timeoutMs, signal, ...until })
        .finally(stopProgress);
      const now = clock.now();
      const found = await jobs.ledger.findMany(ids);
      const byId = new Map(found.map((job) => [job.id, job]));
      const shown = ids.flatMap((id) => byId.get(id) ?? []);
      const maxBytes = excerptBytes(shown.length, context.maxResponseBytes);
      return {
        done: !result.timedOut,
        reached: [...result.reached].map(([id, hit]) => ({ id, ...hit })),
        jobs: await Promise.all(
          shown.map(async (job) =>
            (await isOwn(jobs, job, context.caller))
              ? viewWithOutput(jobs, job, { now, caller: context.caller, maxBytes })
              : viewPublicJob(jobs, job, now, context.caller),
          ),
        ),
        ...(result.timedOut
          ? { next: 'Still running: call wait_for_jobs again with the same ids.' }
          : {}),
      };
    },
  });
}

/** The condition that was met before the job ended. */
function briefHit({ id, status }: JobView, reached: Reached[]): Record<string, unknown> {
  const hit = reached.find((one) => one.id === id);
  if (!hit || hit.reason === status) return {};
  const detail = isRecord(hit.detail) ? hit.detail : {};
  return { reached: { reason: hit.reason, ...detail } };
}

interface Reached {
  id: string;
  reason: string;
  detail?: unknown;
}

/** Why the wait ended. Omitted if the job ended, because the state shows that. */
function reachedText({ id, status }: { id: string; status: string }, reached: Reached[]): string {
  const hit = reached.find((one) => one.id === id);
  if (!hit || hit.reason === status) return '';
  return `\nreached: ${hit.reason}${hit.detail === undefined ? '' : ` ${JSON.stringify(hit.detail)}`}`;
}
