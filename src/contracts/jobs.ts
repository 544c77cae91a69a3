// Contracts of the job operations, and the job view that all interfaces show.
import { z } from 'zod';
import { defineContract } from '../contract.ts';
import { jobFields } from '../job-names.ts';
import { omitted } from '../runtime/response-budget.ts';

export const statuses = [
  'queued',
  'running',
  'input_required',
  'completed',
  'failed',
  'cancelled',
  'timed_out',
] as const;
export type Status = (typeof statuses)[number];

/** A job reference: an id, a name, an id prefix or `@last` (see references.ts). */
export const jobId = z
  .string()
  .min(1)
  .max(200)
  .register(jobFields, { names: 'job' })
  .describe('Job id (job_…) or name');

/** A hundred years. Keeps times within the integers that every store returns exactly. */
export const maxLifeMs = 36_500 * 86_400_000;

/** Valid queue names, and the rule as text for errors. */
const queueNamePattern = /^[\w.-]{1,100}$/;
const queueNameRule = 'letters, digits, dots, dashes and underscores, at most 100';
export const queueName = z.string().regex(queueNamePattern, queueNameRule);

const maxLabels = 10;

export const labelList = z.array(z.string().regex(/^[\w.-]{1,60}(=[\w.-]{0,60})?$/)).max(maxLabels);

/** Waits above the limit are shortened, never rejected. */
export function waitField(what: string): z.ZodNumber {
  return z.number().describe(`${what}; ms, at most 50 s, with a progress token 300 s`);
}

/** A wait with a fixed limit, for workers and dialects. */
export const clampedWait = (maxMs: number): z.ZodNumber =>
  z.number().overwrite((ms) => Math.round(Math.min(Math.max(ms, 0), maxMs)));

/** Longest time between the request to stop and the kill. */
const maxGraceMs = 600_000;

const iso = z.string().describe('ISO-8601 UTC');

const jobErrorView = z
  .object({
    code: z.string(),
    message: z.string(),
    hint: z.string().optional(),
    data: z.unknown().optional(),
  })
  .describe('Why the job ended this way');

export const jobView = z.looseObject({
  id: z.string(),
  kind: z.string(),
  action: z.string().optional(),
  status: z.enum(statuses),
  stage: z.string().optional().describe('Detailed state, specific to the kind'),
  queue: z.string(),
  name: z.string().optional(),
  summary: z.string().optional().describe('The command line, URL or title'),
  tags: z.array(z.string()).optional(),
  attempts: z
    .object({ number: z.number(), max: z.number() })
    .describe('Current attempt and maximum attempts'),
  progress: z
    .looseObject({
      done: z.number().optional(),
      total: z.number().optional(),
      unit: z.string().optional(),
      message: z.string().optional(),
    })
    .optional(),
  result: z.unknown().optional(),
  error: jobErrorView.optional(),
  timings: z.object({
    createdAt: iso,
    startedAt: iso.optional(),
    finishedAt: iso.optional(),
    queuedMs: z.number().optional().describe('Time in the queue before the current attempt'),
    runMs: z.number().optional(),
  }),
});
export type JobView = z.infer<typeof jobView>;

export const jobLine = z.looseObject({
  id: z.string(),
  kind: z.string(),
  status: z.enum(statuses),
  name: z.string().optional(),
  summary: z.string().optional(),
  createdAt: iso,
  updatedAt: iso.optional().describe('When it ended, otherwise when it started'),
  runMs: z.number().optional(),
});
export type JobLine = z.infer<typeof jobLine>;

const shownOutput = z
  .object({ text: z.string(), next: z.number().describe('Cursor to continue reading from') })
  .describe('End of the output; for failures, error lines first');

const maxListLimit = 200;

/** Orders of list_jobs. */
const listSorts = [
  'created-desc',
  'created-asc',
  'ended-desc',
  'ended-asc',
  'duration-desc',
  'duration-asc',
] as const;
export type ListSort = (typeof listSorts)[number];

/** The filters of operations on many jobs. All must match. */
export const filterFields = {
  status: z.array(z.enum(statuses)).optional().describe('Only jobs with one of these'),
  kind: z
    .array(z.string().max(40))
    .optional()
    .describe('Only these kinds: command, endpoint, web, escrow'),
  queue: z.string().max(100).optional().describe('Only this queue'),
  name: z.string().max(200).optional().describe('Exact job name'),
  tag: z.array(z.string().max(100)).optional().describe('Jobs that have all these tags'),
  text: z.string().max(200).optional().describe('Part of the name, command, URL or error'),
  parent: jobId.optional().describe('Only children of this job'),
  since: z.iso.datetime({ offset: true }).optional().describe('Created at or after this ISO time'),
  before: z.iso.datetime({ offset: true }).optional().describe('Created before this ISO time'),
};

export const getJob = defineContract({
  name: 'get_job',
  input: z.object({
    id: jobId,
    includeInput: z.boolean().optional().describe('Also show what was submitted'),
    includeAttempts: z.boolean().optional().describe('Also show earlier attempts'),
    includeResult: z.boolean().optional().describe('Show a large result completely'),
    details: z.boolean().optional().describe('All fields: times, CPU and memory, folder, queue'),
  }),
  output: jobView,
});

export const listJobs = defineContract({
  name: 'list_jobs',
  input: z.strictObject({
    ...filterFields,
    limit: z
      .number()
      .int()
      .min(1)
      .max(maxListLimit)
      .default(20)
      .describe('Jobs per page, 1 to 200'),
    sort: z
      .enum(listSorts)
      .default('created-desc')
      .describe('Order; by end or duration only ended jobs are listed'),
    cursor: z.string().max(60).optional().describe('nextCursor of the previous page'),
  }),
  output: z.object({
    jobs: z.array(jobLine),
    nextCursor: z.string().optional(),
    omitted: omitted.optional(),
  }),
});

const eventView = z.object({
  cursor: z.number(),
  jobId: z.string(),
  n: z.number(),
  type: z.string(),
  at: z.string(),
  data: z.unknown(),
});

export const listEvents = defineContract({
  name: 'list_events',
  input: z.object({
    id: jobId,
    after: z.number().int().min(0).default(0).describe('Only events after this number'),
    limit: z.number().int().min(1).max(1000).default(100).describe('Events per page'),
    cursor: z.string().max(40).optional().describe('nextCursor of the previous page'),
  }),
  output: z.object({
    events: z.array(eventView),
    nextCursor: z.string().optional().describe('Present if there are more events'),
    omitted: omitted.optional(),
  }),
});

const until = z.strictObject({
  text: z.string().min(1).max(500).optional().describe('This text is printed'),
  port: z.number().int().min(1).max(65_535).optional().describe('The job listens on this TCP port'),
  http: z
    .url({ protocol: /^https?$/, error: 'not an http(s) URL, like http://localhost:3000/' })
    .max(2000)
    .optional()
    .describe('This local URL of the job answers 2xx'),
  silenceMs: z
    .number()
    .int()
    .min(100)
    .max(3_600_000)
    .optional()
    .describe('No output for this many ms'),
  inputNeeded: z.boolean().optional().describe('The command waits for input'),
  newBytes: z.number().int().min(1).optional().describe('This many new bytes of output'),
  from: z.number().int().min(0).optional().describe('Cursor: ignore output before it'),
});

export const waitForJobs = defineContract({
  name: 'wait_for_jobs',
  input: z.strictObject({
    ids: z.array(jobId).min(1).max(100).describe('Job ids (job_…) or names, 1 to 100'),
    mode: z.enum(['any', 'all']).default('all').describe('any: return when the first job ends'),
    until: until.optional().describe('Commands: also return when one of these is met'),
    waitMs: waitField('Longest wait, default 45 s').optional(),
    timeoutMs: z.number().optional().describe('Former name of waitMs'),
  }),
  output: z.object({
    done: z.boolean(),
    reached: z.array(
      z.object({ id: z.string(), reason: z.string(), detail: z.unknown().optional() }),
    ),
    jobs: z.array(
      jobView.extend({
        output: shownOutput.optional(),
        outputError: z.string().optional().describe('Why the output cannot be read'),
        latestLine: z.string().optional(),
        expectedRemainingMs: z.number().optional().describe('From earlier runs of the same work'),
      }),
    ),
    next: z.string().optional(),
  }),
});

export const cancelJob = defineContract({
  name: 'cancel_job',
  input: z.object({
    id: jobId,
    reason: z.string().max(500).optional().describe('Reason, recorded in the job history'),
    graceMs: clampedWait(maxGraceMs)
      .optional()
      .describe(
        'Time to stop before it is killed, 0 to 600,000 ms; default 5 s for commands. Call again with less to hurry',
      ),
  }),
  output: jobView.extend({
    alreadyEnded: z.boolean().optional().describe('It had ended before; its state is unchanged'),
    endedProcesses: z
      .number()
      .optional()
      .describe('Orphaned processes of this job that were ended now'),
  }),
});

export const retryJob = defineContract({
  name: 'retry_job',
  input: z.object({
    id: jobId,
    waitMs: waitField('Wait this long for the end and return its output').default(0),
  }),
  output: jobView.extend({ output: shownOutput.optional(), outputError: z.string().optional() }),
});

export const pinJob = defineContract({
  name: 'pin_job',
  input: z.object({ id: jobId, pinned: z.boolean().default(true) }),
  output: jobView,
});

export const watchJob = defineContract({
  name: 'watch_job',
  input: z.object({ id: z.string(), until: z.record(z.string(), z.unknown()) }),
  output: z.object({ reason: z.string().optional(), detail: z.unknown() }),
});
