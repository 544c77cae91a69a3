// Contracts of the batch operations that dialects call.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { omitted } from '../../../runtime/response-budget.ts';
import { endpointJobView, runFields } from './jobs.ts';

/** Most requests in one call. */
export const maxRequests = 50_000;
const endpointFilter = z
  .string()
  .max(100)
  .optional()
  .describe('Only match batches of this endpoint');
const request = z.object(runFields);
const requests = z.array(request).max(maxRequests);
const counts = z.object({
  total: z.number(),
  queued: z.number(),
  running: z.number(),
  completed: z.number(),
  failed: z.number(),
  cancelled: z.number(),
});
export const batchView = z.object({
  id: z.string(),
  endpointId: z.string(),
  status: z.string(),
  draft: z.boolean(),
  name: z.string().optional(),
  counts,
  state: z.string().describe('Summary of the counts'),
  createdAt: z.string(),
});
export type BatchView = z.infer<typeof batchView>;

export const draftBatch = defineContract({
  name: 'draft_batch',
  input: z.object({
    endpointId: z.string().max(100),
    requests,
    name: z.string().max(200).optional(),
  }),
  output: batchView,
});

export const changeBatch = defineContract({
  name: 'change_batch',
  input: z.object({
    endpointId: z.string().max(100),
    batchId: jobId,
    add: requests.optional(),
    remove: jobId.optional(),
    name: z.string().max(200).optional(),
    finalize: z.boolean().optional(),
  }),
  output: batchView.extend({ added: z.array(z.string()).optional() }),
});

export const cancelBatch = defineContract({
  name: 'cancel_batch',
  input: z.object({ batchId: jobId, endpointId: endpointFilter }),
  output: batchView,
});

export const getBatch = defineContract({
  name: 'get_batch',
  input: z.object({ batchId: jobId, endpointId: endpointFilter }),
  output: batchView,
});

export const listBatches = defineContract({
  name: 'list_batches',
  input: z.object({
    endpointId: z.string().max(100),
    limit: z.number().int().min(1).max(200).default(50),
  }),
  output: z.object({ batches: z.array(batchView) }),
});

export const listBatchJobs = defineContract({
  name: 'list_batch_jobs',
  input: z.object({
    batchId: jobId,
    offset: z.number().int().min(0).default(0),
    limit: z.number().int().min(1).max(1000).default(50),
  }),
  output: z.object({
    jobs: z.array(endpointJobView),
    total: z.number(),
    hasMore: z.boolean(),
    nextOffset: z.number().optional(),
    omitted: omitted.optional(),
  }),
});
