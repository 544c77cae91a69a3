// The operations every kind of job shares: look, list, wait, cancel, retry, events, queues, pins.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type CallContext, type Operation } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import type { EventFeed } from './events.ts';
import { isFinal, statuses } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import {
  jobLine,
  jobView,
  lineOf,
  ownJob,
  owns,
  viewJob,
  viewPublicJob,
  visibleJob,
} from './view.ts';
import type { Waiting } from './wait.ts';

export interface JobOperationsNeeds {
  jobs: Jobs;
  feed: EventFeed;
  waiting: Waiting;
  clock: Clock;
  /** Longest a wait may hold a call: below the 60 s after which most MCP clients give up. */
  waitMsMax: number;
  /** How long a cancelled job may take to stop before it is given up. */
  cancelMsDefault: number;
}

export const jobId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,80}$/, 'not a job id')
  .describe('Job id, like job_7f3k2m9q4t8x1b5n');

const listLimitMax = 200;

export function jobOperations(needs: JobOperationsNeeds): Operation[] {
  return [
    getJob(needs),
    listJobs(needs),
    waitForJobs(needs),
    cancelJob(needs),
    retryJob(needs),
    jobEvents(needs),
    pinJob(needs),
  ];
}

function getJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'get_job',
    title: 'Get job',
    description:
      'Shows one job of any kind: status, stage, progress, result or error, attempts, timings, and what its kind adds (exit code, page counts, who must act next). ' +
      'Use it when you have a job id and want its state now. To wait for a change use wait_for_jobs instead of calling this in a loop; for what a command printed use read_output; without an id use list_jobs. Changes nothing. Public jobs answer without a key.',
    effect: 'read',
    scope: 'public',
    toolsets: ['default', 'jobs'],
    input: z.object({
      id: jobId,
      includeInput: z.boolean().optional().describe('Also show what was submitted'),
      includeAttempts: z.boolean().optional().describe('Also show earlier attempts'),
      includeResult: z.boolean().optional().describe('Show the whole result even when it is large'),
    }),
    output: jobView,
    http: { method: 'GET', path: '/api/jobs/{id}' },
    cli: { words: ['show'], args: ['id'], custom: true },
    text: (view) => jobText(view),
    run: async (input, { caller }) => {
      const job = await visibleJob(jobs, input.id, caller);
      if (!owns(job, caller)) return viewPublicJob(jobs, job, clock.now(), caller);
      const view = await viewJob(jobs, job, clock.now(), caller);
      if (input.includeInput) view.input = job.input;
      if (input.includeResult && job.result !== null) {
        view.result = job.result;
        delete view.resultOmitted;
      }
      if (input.includeAttempts) {
        view.earlierAttempts = (await jobs.ledger.attempts(job.id)).map((attempt) => ({
          number: attempt.attempt,
          status: attempt.status,
          ...(attempt.error ? { error: attempt.error } : {}),
          facts: attempt.facts,
          ...(attempt.startedAt === null
            ? {}
            : { startedAt: new Date(attempt.startedAt).toISOString() }),
          ...(attempt.finishedAt === null
            ? {}
            : { finishedAt: new Date(attempt.finishedAt).toISOString() }),
        }));
      }
      return view;
    },
  });
}

function listJobs({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'list_jobs',
    title: 'List jobs',
    description:
      'Lists jobs of every kind, newest first, one short line each, filtered by status, kind, queue, name, tag, text or time. ' +
      'Use it to find a job whose id you do not have (after a restart, or one another agent started) or to see what runs. With an id use get_job. Changes nothing. Pages with nextCursor.',
    effect: 'read',
    scope: 'read',
    toolsets: ['default', 'jobs'],
    input: z.strictObject({
      status: z.array(z.enum(statuses)).optional().describe('Any of these'),
      kind: z.array(z.string().max(40)).optional().describe('command, endpoint, web, escrow'),
      queue: z.string().max(100).optional(),
      name: z.string().max(200).optional().describe('Exact name'),
      tag: z.array(z.string().max(100)).optional().describe('All of these'),
      text: z.string().max(200).optional().describe('Part of the name, input or error'),
      parent: jobId.optional().describe('Children of this job'),
      since: z.iso.datetime({ offset: true }).optional().describe('Created at or after'),
      before: z.iso.datetime({ offset: true }).optional().describe('Created before'),
      limit: z.number().int().min(1).max(listLimitMax).default(20),
      cursor: z.string().max(40).optional().describe('nextCursor of the page before'),
    }),
    output: z.object({ jobs: z.array(jobLine), nextCursor: z.string().optional() }),
    rareInput: ['queue', 'name', 'tag', 'parent', 'since', 'before'],
    http: { method: 'GET', path: '/api/jobs' },
    cli: {
      words: ['list'],
      table: {
        rows: 'jobs',
        columns: ['id', 'status', 'kind', 'name', 'summary', 'runMs', 'createdAt'],
      },
    },
    run: async (input, { caller }) => {
      const filter: JobFilter = {
        ...(caller!.admin ? {} : { owner: caller!.owner }),
        ...(input.status && input.status.length > 0 ? { statuses: input.status } : {}),
        ...allowed('kinds', input.kind, caller!.kinds),
        ...allowed('queues', undefined, caller!.queues),
        ...(input.queue === undefined ? {} : { queue: input.queue }),
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.tag ? { tags: input.tag } : {}),
        ...(input.text === undefined ? {} : { text: input.text }),
        ...(input.parent === undefined ? {} : { parentId: input.parent }),
        ...(input.since === undefined ? {} : { createdAfter: Date.parse(input.since) }),
        ...(input.before === undefined ? {} : { createdBefore: Date.parse(input.before) }),
      };
      const before = input.cursor === undefined ? {} : { before: cursorNumber(input.cursor) };
      const page = await jobs.ledger.list(filter, { limit: input.limit, ...before });
      const now = clock.now();
      return {
        jobs: page.jobs.map((job) => lineOf(jobs, job, now)),
        ...(page.next === undefined ? {} : { nextCursor: String(page.next) }),
      };
    },
  });
}

function waitForJobs({ jobs, waiting, clock, waitMsMax }: JobOperationsNeeds): Operation {
  const until = z.strictObject({
    text: z.string().min(1).max(500).optional().describe('This text appears in the output'),
    port: z.number().int().min(1).max(65_535).optional().describe('The job listens on this port'),
    http: z.string().max(2000).optional().describe('This URL of the job answers 2xx'),
    silenceMs: z
      .number()
      .int()
      .min(100)
      .max(3_600_000)
      .optional()
      .describe('No output for so long'),
    inputNeeded: z.boolean().optional().describe('The job waits for input'),
    newBytes: z.number().int().min(1).optional().describe('So many bytes of output since the call'),
  });
  return defineOperation({
    name: 'wait_for_jobs',
    title: 'Wait for jobs',
    description:
      'Waits until any (or all) of the given jobs are over, or until a running command prints a text, opens a port, answers HTTP, falls silent or needs input. ' +
      'Use it instead of polling get_job. Answers within 50 s: done false means still running, call it again with the same ids; the jobs are never touched, also not when the call is aborted. To look once use get_job; for the output use read_output.',
    effect: 'read',
    scope: 'public',
    toolsets: ['default', 'jobs'],
    input: z.strictObject({
      ids: z.array(jobId).min(1).max(100),
      mode: z.enum(['any', 'all']).default('all'),
      until: until.optional().describe('Conditions besides the end; any of them ends the wait'),
      timeoutMs: z.number().int().min(0).max(waitMsMax).default(45_000),
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
      [...out.jobs.map((view) => jobText(view)), ...(out.next ? [out.next] : [])].join('\n\n'),
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
          shown.map((job) =>
            owns(job, context.caller)
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

function cancelJob({ jobs, clock, waiting, cancelMsDefault }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'cancel_job',
    title: 'Cancel job',
    description:
      'Stops a job: a queued one never runs, a running one is asked to stop and after graceMs forced to (for a command: the whole process tree). ' +
      'Use it for work that is no longer wanted. Waits until it is over. A job that is over already stays as it is. To send a command a signal only, use send_signal; to run it again later, retry_job. What it printed or fetched so far stays readable.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    toolsets: ['default', 'jobs'],
    input: z.object({
      id: jobId,
      reason: z.string().max(500).optional(),
      graceMs: z
        .number()
        .int()
        .min(0)
        .max(600_000)
        .optional()
        .describe('Time to stop by itself before it is forced; default 10 s'),
    }),
    output: jobView,
    http: { method: 'POST', path: '/api/jobs/{id}/cancel' },
    cli: { words: ['cancel'], args: ['id'] },
    text: (view) => jobText(view),
    run: async (input, { caller, signal }) => {
      const job = await ownJob(jobs, input.id, caller);
      const kind = jobs.kind(job.kind);
      if (!kind.cancellable && !isFinal(job.status)) {
        throw new AppError(
          'wrongState',
          `A job of kind ${job.kind} is ended only by its own rules.`,
          {
            hint: 'get_job shows which actions are open to you.',
          },
        );
      }
      const grace = input.graceMs ?? cancelMsDefault;
      const told = await jobs.cancel(job.id, caller!.owner, input.reason, input.graceMs);
      if (!isFinal(told.status)) {
        const limit = AbortSignal.any([signal]);
        const stop = new AbortController();
        const off = clock.after(grace + cancelMsDefault, () => stop.abort());
        const over = await waiting.ended(job.id, AbortSignal.any([limit, stop.signal]));
        off();
        if (!over && stop.signal.aborted) await jobs.forceCancel(job.id);
      }
      return viewJob(jobs, await jobs.get(job.id), clock.now());
    },
  });
}

function retryJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'retry_job',
    title: 'Retry job',
    description:
      'Runs an ended job again as a new attempt of the same id, with the same input. Only for jobs that failed, timed out or were cancelled; completed ones are refused. ' +
      'Use it after the cause is gone (network back, file fixed). Earlier attempts stay readable (get_job with includeAttempts). To change the command or input, start a new job instead. Answers at once: follow it with wait_for_jobs.',
    effect: 'write',
    scope: 'run',
    toolsets: ['default', 'jobs'],
    input: z.object({ id: jobId }),
    output: jobView,
    http: { method: 'POST', path: '/api/jobs/{id}/retry' },
    cli: { words: ['retry'], args: ['id'] },
    startsJob: (view) => view.id,
    text: (view) => jobText(view),
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      return viewJob(jobs, await jobs.retry(job.id, caller!.owner), clock.now());
    },
  });
}

const eventView = z.object({
  cursor: z.number(),
  jobId: z.string(),
  n: z.number(),
  type: z.string(),
  at: z.string(),
  data: z.unknown(),
});

function jobEvents({ jobs, feed }: JobOperationsNeeds): Operation {
  const show = (event: {
    cursor: number;
    jobId: string;
    n: number;
    type: string;
    at: number;
    data: string;
  }) => ({
    cursor: event.cursor,
    jobId: event.jobId,
    n: event.n,
    type: event.type,
    at: new Date(event.at).toISOString(),
    data: JSON.parse(event.data) as unknown,
  });
  return defineOperation({
    name: 'list_events',
    title: 'List events',
    description:
      'Shows the numbered history of one job: submitted, started, progress, ends, retries. Use it to see how a job came to its state; for the state itself use get_job. Changes nothing. Over HTTP with Accept: text/event-stream it follows the job live.',
    effect: 'read',
    scope: 'public',
    toolsets: ['jobs'],
    input: z.object({
      id: jobId,
      after: z.number().int().min(0).default(0).describe('Number of the last event you have'),
      limit: z.number().int().min(1).max(1000).default(100),
      cursor: z.string().max(40).optional(),
    }),
    output: z.object({ events: z.array(eventView) }),
    http: { method: 'GET', path: '/api/jobs/{id}/events' },
    cli: {
      words: ['events'],
      args: ['id'],
      table: { rows: 'events', columns: ['n', 'at', 'type', 'data'] },
    },
    run: async (input, { caller }) => {
      await visibleJob(jobs, input.id, caller);
      const after = input.cursor === undefined ? input.after : cursorNumber(input.cursor);
      return { events: (await jobs.ledger.events(input.id, after, input.limit)).map(show) };
    },
    stream: async function* (input, { caller, signal }) {
      const job = await visibleJob(jobs, input.id, caller);
      let n = input.cursor === undefined ? input.after : cursorNumber(input.cursor);
      let wake = () => {};
      const off = await feed.subscribe(() => wake(), job.id);
      signal.addEventListener('abort', () => wake(), { once: true });
      try {
        while (!signal.aborted) {
          const changed = new Promise<void>((resolve) => (wake = resolve));
          const events = await jobs.ledger.events(job.id, n, 500);
          for (const event of events) {
            n = event.n;
            yield { event: event.type, data: show(event), id: String(event.n) };
          }
          if (events.length > 0) continue;
          if (isFinal((await jobs.get(job.id)).status)) return;
          await changed;
        }
      } finally {
        off();
      }
    },
  });
}

function pinJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'pin_job',
    title: 'Pin job',
    description:
      'Keeps an ended job and its files beyond the retention limits (pinned true), or lets it go again (false). Use it for results you will need in weeks; running jobs are never forgotten anyway. Changes nothing else about the job. get_job shows whether it is pinned.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    toolsets: ['jobs'],
    input: z.object({ id: jobId, pinned: z.boolean().default(true) }),
    output: jobView,
    http: { method: 'POST', path: '/api/jobs/{id}/pin' },
    cli: { words: ['pin'], args: ['id'] },
    run: async (input, { caller }) => {
      const job = await ownJob(jobs, input.id, caller);
      return viewJob(jobs, await jobs.setPinned(job.id, input.pinned), clock.now());
    },
  });
}

/** A few lines for a model or a person: the state first, so that it survives any truncation. */
export function jobText(view: Record<string, unknown>): string {
  const { id, status, stage, kind, name, summary, error, progress, result, exitCode, signal } =
    view;
  const head = [
    `${String(id)} ${String(status)}${stage ? ` (${String(stage)})` : ''}`,
    `${String(kind)}${name ? ` "${String(name)}"` : ''}`,
    ...(exitCode === undefined || exitCode === null ? [] : [`exit code ${String(exitCode)}`]),
    ...(signal ? [`signal ${String(signal)}`] : []),
  ];
  const lines = [head.join(' · ')];
  if (summary) lines.push(String(summary));
  if (progress) lines.push(`progress: ${JSON.stringify(progress)}`);
  if (error) {
    const { code, message, hint } = error as { code: string; message: string; hint?: string };
    lines.push(`${code}: ${message}${hint ? ` ${hint}` : ''}`);
  }
  if (result !== undefined) lines.push(`result: ${JSON.stringify(result).slice(0, 2000)}`);
  return lines.join('\n');
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

function allowed(
  field: 'kinds' | 'queues',
  asked: readonly string[] | undefined,
  granted: readonly string[] | undefined,
): Partial<JobFilter> {
  if (!granted) return asked && asked.length > 0 ? { [field]: asked } : {};
  const both = asked && asked.length > 0 ? asked.filter((one) => granted.includes(one)) : granted;
  return { [field]: both.length > 0 ? both : ['\u0000none'] };
}

function cursorNumber(cursor: string): number {
  const n = Number(cursor);
  if (Number.isSafeInteger(n) && n >= 0) return n;
  throw new AppError('invalidInput', 'That is not a cursor of this list.', {
    hint: 'Pass nextCursor as it came.',
  });
}
