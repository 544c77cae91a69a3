// Contracts of the operations on workers that dialects call: the worker protocol, the list of workers and their logs.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { clampedWait, jobId } from '../../../contracts/jobs.ts';
import { omitted } from '../../../runtime/response-budget.ts';

const workerId = z.string().regex(/^[\w.:-]{1,120}$/, 'not a worker id');
const maxWaitMs = 85_000;
const maxBatch = 1000;
/** Most lines of a log in one response. */
export const maxTail = 5000;
const place = { endpointId: z.string().max(100), workerId };
const body = z.instanceof(Buffer) as z.ZodType<Buffer>;
export const report = z.object({
  ...place,
  jobId,
  body,
  attemptId: z.string().max(100).optional().describe('The attempt that the post belongs to'),
});

const workerView = z.looseObject({
  id: z.string(),
  status: z.string(),
  origin: z.string(),
  version: z.number(),
  isStale: z.boolean(),
  jobs: z.array(z.string()),
  uptimeSeconds: z.number(),
  startedAt: z.string(),
});

export const logInput = z.object({
  endpointId: z.string().max(100),
  workerId: z
    .string()
    .max(120)
    .optional()
    .describe('Default: the newest worker, even if it has ended'),
  source: z.enum(['container', 'system', 'both']).default('both'),
  tail: z.number().int().min(0).max(maxTail).default(100).describe('Number of last lines'),
  since: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('Lines since this time, instead of tail'),
  jobId: jobId.optional().describe('Only lines that the worker attributed to this job'),
  cursor: z.string().max(80).optional().describe('Id of the last event, to continue'),
});

export const takeJobs = defineContract({
  name: 'take_jobs',
  input: z.object({
    ...place,
    count: z.number().int().min(1).max(maxBatch).default(1),
    waitMs: clampedWait(maxWaitMs).optional(),
    running: z
      .array(jobId)
      .max(maxBatch)
      .optional()
      .describe(
        'All jobs it runs now; other assigned jobs never reached it and return to the queue',
      ),
    idle: z.boolean().optional().describe('It runs nothing now; jobs it held are lost'),
  }),
  output: z.object({ jobs: z.array(z.looseObject({ id: z.string(), input: z.unknown() })) }),
});

export const pollStops = defineContract({
  name: 'poll_stops',
  input: z.object({ ...place, waitMs: clampedWait(maxWaitMs).optional() }),
  output: z.object({ jobIds: z.array(z.string()) }),
});

export const finishEndpointJob = defineContract({
  name: 'finish_endpoint_job',
  input: report,
  output: z.object({ applied: z.boolean() }),
});

export const addStreamChunk = defineContract({
  name: 'add_stream_chunk',
  input: report.extend({ n: z.number().int().min(1).optional() }),
  output: z.object({ applied: z.boolean() }),
});

export const pingWorker = defineContract({
  name: 'ping_worker',
  input: z.object({
    ...place,
    jobIds: z.array(jobId).max(10_000).default([]),
    unhealthy: z.string().max(500).optional().describe('Why the worker cannot work'),
  }),
  output: z.object({}),
});

export const startsView = z.object({
  count: z.number(),
  p50Ms: z.number(),
  p95Ms: z.number(),
});

export const listWorkers = defineContract({
  name: 'list_workers',
  input: z.object({ endpointId: z.string().max(100) }),
  output: z.object({
    version: z.number(),
    workers: z.array(workerView),
    ended: z.array(z.looseObject({ id: z.string(), reason: z.string().nullable() })),
    starts: startsView
      .optional()
      .describe('From creation to the first poll for work, of the newest workers'),
  }),
});

export const readWorkerLog = defineContract({
  name: 'read_worker_log',
  input: logInput,
  output: z.object({
    workerId: z.string(),
    lines: z.array(
      z.object({
        ts: z.string(),
        source: z.enum(['container', 'system']),
        line: z.string(),
        jobId: z.string().optional(),
        level: z.string().optional(),
        offset: z.number().optional(),
      }),
    ),
    omitted: omitted.optional(),
  }),
});
