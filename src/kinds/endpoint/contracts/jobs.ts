// Contracts of the operations on endpoint jobs that dialects call: submit, get, list, cancel, retry, and streamed output.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { clampedWait, jobId, statuses } from '../../../contracts/jobs.ts';
import { omitted } from '../../../runtime/response-budget.ts';

/** The longest wait that RunPod accepts. */
const maxWaitMs = 300_000;
const day = 86_400_000;

export const runFields = {
  input: z.unknown().describe('Any JSON; the handler receives it as job.input'),
  webhook: z.url().max(2000).optional().describe('Receives the job by POST when it has ended'),
  s3Config: z.record(z.string(), z.unknown()).optional().describe('Passed on to the worker'),
  executionTimeoutMs: z
    .number()
    .int()
    .min(5000)
    .max(7 * day)
    .optional()
    .describe('Maximum running time, 5 s to 7 days'),
  ttlMs: z
    .number()
    .int()
    .min(10_000)
    .max(7 * day)
    .optional()
    .describe('Maximum lifetime from now, waiting and running'),
  lowPriority: z
    .boolean()
    .optional()
    .describe('Runs when no other job waits; does not start a worker'),
  idempotencyKey: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('Calls with the same key run one job'),
  name: z.string().max(200).optional().describe('Name to find the job by'),
  tags: z.array(z.string().max(100)).max(20).optional().describe('Tags to find the job by'),
};

/** A job as dialects need it: every fact, and the result from wherever it is stored. */
export const endpointJobView = z.object({
  id: z.string(),
  endpointId: z.string(),
  status: z.enum(statuses),
  stage: z.string().optional(),
  output: z.unknown().optional(),
  error: z.looseObject({ code: z.string(), message: z.string() }).optional(),
  delayMs: z.number().optional(),
  executionMs: z.number().optional(),
  retries: z.number(),
  workerId: z.string().optional(),
  input: z.unknown().optional(),
  webhook: z.string().optional(),
  createdAt: z.string(),
  startedAt: z.string().optional(),
  finishedAt: z.string().optional(),
});
export type EndpointJobView = z.infer<typeof endpointJobView>;

export const submitEndpointJob = defineContract({
  name: 'submit_endpoint_job',
  input: z.object({
    endpointId: z.string().max(100),
    ...runFields,
    waitMs: clampedWait(maxWaitMs).optional(),
    connection: z
      .enum(['stream', 'request'])
      .optional()
      .describe('The caller keeps its connection open for the job, see cancelOnDisconnect'),
  }),
  output: endpointJobView,
});

export const getEndpointJob = defineContract({
  name: 'get_endpoint_job',
  input: z.object({
    endpointId: z.string().max(100),
    id: jobId,
    waitMs: clampedWait(maxWaitMs).optional(),
    ttlMs: z
      .number()
      .int()
      .min(10_000)
      .max(7 * day)
      .optional(),
    includeInput: z.boolean().optional(),
  }),
  output: endpointJobView,
});

export const listEndpointJobs = defineContract({
  name: 'list_endpoint_jobs',
  input: z.object({
    endpointId: z.string().max(100),
    limit: z.number().int().min(1).max(200).default(50),
    cursor: z.number().int().min(0).optional(),
    idempotencyKey: z.string().max(200).optional(),
    retryOf: jobId
      .optional()
      .describe('With a key: matches this job if it was retried with that key'),
  }),
  output: z.object({
    jobs: z.array(endpointJobView),
    next: z.number().optional(),
    omitted: omitted.optional(),
  }),
});

export const cancelEndpointJob = defineContract({
  name: 'cancel_endpoint_job',
  input: z.object({ endpointId: z.string().max(100), id: jobId }),
  output: endpointJobView,
});

export const retryEndpointJob = defineContract({
  name: 'retry_endpoint_job',
  input: z.object({
    endpointId: z.string().max(100),
    id: jobId,
    idempotencyKey: z.string().min(1).max(200).optional(),
  }),
  output: endpointJobView,
});

export const drainStream = defineContract({
  name: 'drain_stream',
  input: z.object({
    endpointId: z.string().max(100),
    id: jobId,
    waitMs: clampedWait(maxWaitMs).default(10_000),
    maxBytes: z.number().int().min(1).optional().describe('Maximum size of the returned chunks'),
    strict: z
      .boolean()
      .default(false)
      .describe('Return nothing if the first chunk is larger than maxBytes'),
  }),
  output: z.object({
    status: z.enum(statuses),
    stage: z.string().nullable(),
    chunks: z.array(z.unknown()),
    error: z.unknown(),
    bytes: z.number(),
    more: z.boolean(),
  }),
});

export const followStream = defineContract({
  name: 'follow_stream',
  input: z.object({
    id: jobId,
    after: z.number().int().min(0).default(0).describe('Number of the last chunk you have'),
    limit: z.number().int().min(1).max(1000).default(100),
    cursor: z
      .string()
      .regex(/^\d{1,15}$/, 'is not a cursor of this list')
      .optional(),
  }),
  output: z.object({
    status: z.enum(statuses),
    stage: z.string().nullable(),
    chunks: z.array(z.object({ n: z.number(), output: z.unknown() })),
    nextCursor: z.string().optional().describe('More chunks are available'),
    omitted: omitted.optional(),
  }),
});

export const noticeRemote = defineContract({
  name: 'notice_remote',
  input: z.object({ attemptId: z.string().max(100), token: z.string().max(200) }),
  output: z.object({}),
});
