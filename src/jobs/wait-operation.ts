// wait_for_jobs: the one call that waits, instead of calls in a loop.
import { z } from 'zod';
import { defineOperation, type CallContext, type Operation } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { jobId, type JobOperationsNeeds } from './operation-needs.ts';
import { isOwn, jobView, viewJob, viewPublicJob, visibleJob } from './view.ts';
import { jobText } from './text.ts';

export function waitForJobs({ jobs, waiting, clock, waitMsMax }: JobOperationsNeeds): Operation {
  const until = z.strictObject({
    text: z.string().min(1).max(500).optional().describe('This text appears in the output'),
    port: z.number().int().min(1).max(65_535).optional().describe('The job listens on this port'),
    http: z
      .url({ protocol: /^https?$/, error: 'not an http(s) URL, like http://localhost:3000/' })
      .max(2000)
      .optional()
      .describe('This URL of the job answers 2xx'),
    silenceMs: z
      .number()
      .int()
      .min(100)
      .max(3_600_000)
      .optional()
      .describe('No output for so long'),
    inputNeeded: z.boolean().optional().describe('The job waits for input'),
    newBytes: z.number().int().min(1).optional().describe('So many bytes of output since the call'),
    from: z
      .number()
      .int()
      .min(0)
      .optional()
      .describe('Cursor: text and newBytes count only after it'),
  });
  return defineOperation({
    name: 'wait_for_jobs',
    title: 'Wait for jobs',
    description:
      'Waits until any (or all) of the given jobs are over, or until a running command prints a text, opens a port, answers HTTP, falls silent or needs input. ' +
      'Use it instead of polling get_job. Answers within 50 s: done false means still running, call it again with the same ids; the jobs are never touched. To look once use get_job; for the output use read_output.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ ids }) => ids },
    toolsets: ['default', 'jobs'],
    input: z.strictObject({
      ids: z.array(jobId).min(1).max(100),
      mode: z.enum(['any', 'all']).default('all').describe('How many must be over'),
      until: until.optional().describe('Besides the end; any of them ends the wait'),
      timeoutMs: z
        .number()
        .int()
        .min(0)
        .max(waitMsMax)
        .default(45_000)
        .describe('Answer by then; the jobs go on'),
    }),
    output: z.object({
      done: z.boolean(),
      reached: z.array(
        z.object({ id: z.string(), reason: z.string(), detail: z.unknown().optional() }),
      ),
      jobs: z.array(jobView),
      next: z.string().optional(),
    }),
    http: { method: 'POST', path: '/api/wait' },
    cli: { words: ['wait'], args: ['ids'], custom: true },
    text: (out) =>
      [
        ...out.jobs.map((view) => jobText(jobs, view) + reachedText(view, out.reached)),
        ...(out.next ? [out.next] : []),
      ].join('\n\n'),
    run: async (input, context) => {
      const ids = [...new Set(input.ids)];
      for (const id of ids) await visibleJob(jobs, id, context.caller);
      const stopProgress = reportProgress(context, clock, ids.length);
      const answer = await waiting
        .wait({
          ids,
          mode: input.mode,
          timeoutMs: input.timeoutMs,
          signal: context.signal,
          ...(input.until ? { until: input.until } : {}),
        })
        .finally(stopProgress);
      const now = clock.now();
      const found = await jobs.ledger.findMany(ids);
      const byId = new Map(found.map((job) => [job.id, job]));
      const shown = ids.flatMap((id) => byId.get(id) ?? []);
      return {
        done: !answer.timedOut,
        reached: [...answer.reached].map(([id, hit]) => ({ id, ...hit })),
        jobs: await Promise.all(
          shown.map(async (job) =>
            (await isOwn(jobs, job, context.caller))
              ? viewJob(jobs, job, now, context.caller)
              : viewPublicJob(jobs, job, now, context.caller),
          ),
        ),
        ...(answer.timedOut
          ? { next: 'Still running. The jobs go on; call wait_for_jobs again with the same ids.' }
          : {}),
      };
    },
  });
}

/** A first update at once (some clients cut quiet calls), then one every fifteen seconds. */
function reportProgress(context: CallContext, clock: Clock, total: number): () => void {
  if (!context.progress) return () => {};
  let beats = 0;
  let off = () => {};
  const beat = () => {
    context.progress!({
      progress: beats,
      message: `waiting for ${total} job${total === 1 ? '' : 's'}`,
    });
    beats += 1;
    off = clock.after(15_000, beat);
  };
  beat();
  return () => off();
}

/** Why the wait was over, where it was not the end: that the state says itself. */
function reachedText(
  { id, status }: { id: string; status: string },
  reached: { id: string; reason: string; detail?: unknown }[],
): string {
  const hit = reached.find((one) => one.id === id);
  if (!hit || hit.reason === status) return '';
  return `\nreached: ${hit.reason}${hit.detail === undefined ? '' : ` ${JSON.stringify(hit.detail)}`}`;
}
