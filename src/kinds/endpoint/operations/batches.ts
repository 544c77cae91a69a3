// Operations on batches: run_batch for agents, and the steps (draft, add, finalize …) that RunPod's batch routes need.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { decodeJson } from '../../../runtime/json.ts';
import type { Desk } from '../desk.ts';
import type { Job } from '../../../jobs/job.ts';
import { isoTime } from '../../../runtime/clock.ts';
import type { RunWish } from '../intake.ts';
import { requestsMax } from '../batch/batches.ts';
import { endpointId } from '../spec.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { endpointJobView, viewEndpointJob } from './job-view.ts';
import { runFields } from './jobs.ts';
import { withPresent } from './present.ts';
import { ofEndpoint } from './reach.ts';

const endpointFilter = z
  .string()
  .max(100)
  .optional()
  .describe('Of another endpoint it is unknown; left out: of any');
const request = z.object(runFields);
const requests = z.array(request).max(requestsMax);
const counts = z.object({
  total: z.number(),
  queued: z.number(),
  running: z.number(),
  completed: z.number(),
  failed: z.number(),
  cancelled: z.number(),
});
const batchView = z.object({
  id: z.string(),
  endpointId: z.string(),
  status: z.string(),
  draft: z.boolean(),
  name: z.string().optional(),
  counts,
  state: z.string().describe('The counts in a few words'),
  createdAt: z.string(),
});
type BatchView = z.infer<typeof batchView>;

export function batchOperations(desk: Desk): Operation[] {
  return [
    runBatch(desk),
    draftBatch(desk),
    changeBatch(desk),
    cancelBatch(desk),
    getBatch(desk),
    listBatches(desk),
    listBatchJobs(desk),
  ];
}

function runBatch(desk: Desk): Operation {
  return defineOperation({
    name: 'run_batch',
    title: 'Run batch',
    description:
      'Submits up to 50,000 jobs to an endpoint in one call, under one parent job with counts. Answers at once; follow the parent with wait_for_jobs, see results by page with list_batch_jobs, stop what still waits with cancel_job on the parent. For a single job use run_endpoint.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
    input: z.object({
      endpointId,
      inputs: z.array(z.unknown()).min(1).max(requestsMax).describe('One job per element'),
      name: z.string().max(200).optional(),
      idempotencyKey: z.string().min(1).max(200).optional(),
    }),
    output: batchView,
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/batches' },
    cli: { words: ['batch', 'run'], args: ['endpointId', 'inputs'] },
    startsJob: ({ id }) => id,
    text: batchText,
    run: async (wish, { caller }) => {
      const endpoint = await desk.endpoints.get(wish.endpointId, caller);
      await desk.intake.admit(endpoint, wish.inputs.length);
      const { name, idempotencyKey } = wish;
      const batch = await desk.batches.create({
        endpoint,
        owner: caller!.owner,
        requests: wish.inputs.map((input) => ({ input })),
        finalize: true,
        ...(name === undefined ? {} : { name }),
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      });
      return viewBatch(desk, batch);
    },
  });
}

function draftBatch(desk: Desk): Operation {
  return defineOperation({
    name: 'draft_batch',
    title: 'Draft batch',
    description:
      'Makes a batch that is not queued yet, to add requests to. What dialects are made of; agents use run_batch.',
    effect: 'write',
    scope: 'run',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      requests,
      name: z.string().max(200).optional(),
    }),
    output: batchView,
    run: async (wish, { caller }) => {
      const endpoint = await desk.endpoints.get(wish.endpointId, caller);
      const batch = await desk.batches.create({
        endpoint,
        owner: caller!.owner,
        requests: wish.requests.map((one) => withPresent(one) as RunWish),
        finalize: false,
        ...(wish.name === undefined ? {} : { name: wish.name }),
      });
      return viewBatch(desk, batch);
    },
  });
}

function changeBatch(desk: Desk): Operation {
  return defineOperation({
    name: 'change_batch',
    title: 'Change batch',
    description:
      'Adds requests to a draft, removes one, renames it or queues it (finalize). What dialects are made of.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ batchId }) => [batchId] },
    input: z.object({
      endpointId: z.string().max(100),
      batchId: jobId,
      add: requests.optional(),
      remove: jobId.optional(),
      name: z.string().max(200).optional(),
      finalize: z.boolean().optional(),
    }),
    output: batchView.extend({ added: z.array(z.string()).optional() }),
    run: async (wish, { caller }) => {
      const { id } = await desk.batches.get(wish.batchId, caller, wish.endpointId);
      const { batch, added } = await desk.batches.change(id, {
        add: (wish.add ?? []).map((one) => withPresent(one) as RunWish),
        remove: wish.remove,
        name: wish.name,
        finalize: wish.finalize === true,
      });
      return { ...(await viewBatch(desk, batch)), ...(wish.add ? { added } : {}) };
    },
  });
}

const cancelMsMax = 10_000;

function cancelBatch(desk: Desk): Operation {
  return defineOperation({
    name: 'cancel_batch',
    title: 'Cancel batch',
    description:
      'Cancels what still waits of a batch; jobs that run go on, ended ones keep their results. Agents use cancel_job on the parent.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ batchId }) => [batchId] },
    input: z.object({ batchId: jobId, endpointId: endpointFilter }),
    output: batchView,
    cli: { words: ['batch', 'cancel'], args: ['batchId'] },
    text: batchText,
    run: async (wish, { caller }) => {
      const { batches, jobs, waiting } = desk;
      const { id } = await batches.get(wish.batchId, caller, wish.endpointId);
      await jobs.cancel(id, caller!.owner);
      const ended = await waiting.ended(id, AbortSignal.timeout(cancelMsMax));
      return viewBatch(desk, ended ?? (await jobs.get(id)));
    },
  });
}

function getBatch(desk: Desk): Operation {
  return defineOperation({
    name: 'get_batch',
    title: 'Get batch',
    description:
      'Shows one batch of an endpoint with its counts. Agents use get_job on the parent.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ batchId }) => [batchId] },
    input: z.object({ batchId: jobId, endpointId: endpointFilter }),
    output: batchView,
    cli: { words: ['batch', 'show'], args: ['batchId'] },
    text: batchText,
    run: async (wish, { caller }) =>
      viewBatch(desk, await desk.batches.get(wish.batchId, caller, wish.endpointId)),
  });
}

function listBatches(desk: Desk): Operation {
  return defineOperation({
    name: 'list_batches',
    title: 'List batches',
    description: 'Lists the batches of an endpoint, newest first, with their counts.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      limit: z.number().int().min(1).max(200).default(50),
    }),
    output: z.object({ batches: z.array(batchView) }),
    cli: {
      words: ['batch', 'list'],
      args: ['endpointId'],
      table: { rows: 'batches', columns: ['id', 'status', 'name', 'state'] },
    },
    run: async (wish, { caller }) => {
      const endpoint = await desk.endpoints.get(wish.endpointId, caller);
      const filter = {
        kinds: ['batch'],
        queue: endpoint.id,
        ...(caller!.admin ? {} : { owner: caller!.owner }),
      };
      const page = await desk.jobs.ledger.list(filter, { limit: wish.limit });
      return { batches: await Promise.all(page.jobs.map((batch) => viewBatch(desk, batch))) };
    },
  });
}

function listBatchJobs(desk: Desk): Operation {
  return defineOperation({
    name: 'list_batch_jobs',
    title: 'List batch jobs',
    description:
      'Lists the jobs of a batch in their order, with status and output, by page. Use it to collect the results of run_batch; for counts alone get_job on the parent is cheaper. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ batchId }) => [batchId] },
    toolsets: ['endpoints'],
    input: z.object({
      batchId: jobId,
      offset: z.number().int().min(0).default(0),
      limit: z.number().int().min(1).max(1000).default(50),
    }),
    output: z.object({ jobs: z.array(endpointJobView), total: z.number(), hasMore: z.boolean() }),
    http: { method: 'GET', path: '/api/batches/{batchId}/jobs' },
    cli: {
      words: ['batch', 'jobs'],
      args: ['batchId'],
      table: { rows: 'jobs', columns: ['id', 'status', 'output', 'error'] },
    },
    run: async ({ batchId, offset, limit }, { caller }) => {
      const batch = await desk.batches.get(batchId, caller);
      const { total } = await desk.batches.counts(batch);
      const queued = await desk.batches.children(batch, { offset, limit });
      const jobs = queued.map((job) => viewEndpointJob(desk, job));
      if (batch.stage === 'draft') {
        const drafts = (await desk.batches.drafts(batch, { offset, limit })).slice(offset);
        for (const { jobId: id, body } of drafts)
          jobs.push({
            id,
            endpointId: batch.queue,
            status: 'queued',
            retries: 0,
            createdAt: isoTime(batch.createdAt),
            input: (decodeJson(body)?.value as RunWish | undefined)?.input,
          });
      }
      return { jobs, total, hasMore: offset + limit < total };
    },
  });
}

async function viewBatch(desk: Desk, batch: Job): Promise<BatchView> {
  if (batch.kind !== 'batch') throw new AppError('notFound', 'That is no batch.');
  const byStatus = await desk.batches.counts(batch);
  return {
    id: batch.id,
    endpointId: batch.queue,
    status: batch.status,
    draft: batch.stage === 'draft',
    ...(batch.name === null ? {} : { name: batch.name }),
    counts: byStatus,
    state: stateText(byStatus),
    createdAt: isoTime(batch.createdAt),
  };
}

function stateText({ total, ...byStatus }: BatchView['counts']): string {
  const parts = Object.entries(byStatus).filter(([, n]) => n > 0);
  return [`${total} jobs`, ...parts.map(([status, n]) => `${n} ${status}`)].join(', ');
}

const batchText = ({ id, draft, status, state }: BatchView): string =>
  `${id}  ${draft ? 'draft' : status}  ${state}`;
