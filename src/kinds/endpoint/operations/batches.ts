// Batch operations: run_batch for agents, and the steps (draft, add, finalize …) that RunPod's batch routes need.
import { defined } from '../../../runtime/defined.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { fitItems } from '../../../runtime/response-budget.ts';
import { decodeJson } from '../../../runtime/json.ts';
import type { EndpointDeps } from '../deps.ts';
import type { Job } from '../../../jobs/job.ts';
import { isoTime } from '../../../runtime/clock.ts';
import type { RunRequest } from '../jobs/submitter.ts';
import * as contracts from '../contracts/batches.ts';
import { batchView, maxRequests, type BatchView } from '../contracts/batches.ts';
import { endpointId } from '../spec.ts';
import { viewEndpointJob } from './job-view.ts';
import { ofEndpoint } from './reach.ts';

export function batchOperations(deps: EndpointDeps): Operation[] {
  return [
    runBatch(deps),
    draftBatch(deps),
    changeBatch(deps),
    cancelBatch(deps),
    getBatch(deps),
    listBatches(deps),
    listBatchJobs(deps),
  ];
}

function runBatch(deps: EndpointDeps): Operation {
  return defineOperation({
    name: 'run_batch',
    title: 'Run batch',
    description:
      'Submits up to 50,000 jobs to an endpoint in one call, under one parent job with counts. Returns immediately. Wait for the parent with wait_for_jobs, page through the results with list_batch_jobs, and cancel waiting jobs with cancel_job on the parent. For a single job use run_endpoint.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
    input: z.object({
      endpointId,
      inputs: z.array(z.unknown()).min(1).max(maxRequests).describe('One job per element'),
      name: z.string().max(200).optional(),
      idempotencyKey: z.string().min(1).max(200).optional(),
    }),
    output: batchView,
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/batches' },
    cli: { words: ['batch', 'run'], args: ['endpointId', 'inputs'] },
    startsJob: ({ id }) => id,
    text: batchText,
    run: async (input, { caller }) => {
      const endpoint = await deps.endpoints.get(input.endpointId, caller);
      await deps.submitter.admit(endpoint, input.inputs.length);
      const { name, idempotencyKey } = input;
      const batch = await deps.batches.create({
        endpoint,
        owner: caller!.owner,
        requests: input.inputs.map((input) => ({ input })),
        finalize: true,
        ...(name === undefined ? {} : { name }),
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      });
      return viewBatch(deps, batch);
    },
  });
}

function draftBatch(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.draftBatch,
    title: 'Draft batch',
    description:
      'Creates a batch that is not queued yet, so that requests can be added. For dialects; agents use run_batch.',
    effect: 'write',
    scope: 'run',
    reach: ofEndpoint,
    run: async (input, { caller }) => {
      const endpoint = await deps.endpoints.get(input.endpointId, caller);
      const batch = await deps.batches.create({
        endpoint,
        owner: caller!.owner,
        requests: input.requests.map((one) => defined(one) as RunRequest),
        finalize: false,
        ...(input.name === undefined ? {} : { name: input.name }),
      });
      return viewBatch(deps, batch);
    },
  });
}

function changeBatch(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.changeBatch,
    title: 'Change batch',
    description:
      'Adds requests to a draft, removes one, renames it or queues it (finalize). For dialects.',
    effect: 'write',
    scope: 'run',
    reach: { jobs: ({ batchId }) => [batchId] },
    run: async (input, { caller }) => {
      const { id } = await deps.batches.get(input.batchId, caller, input.endpointId);
      const { batch, added } = await deps.batches.change(id, {
        add: (input.add ?? []).map((one) => defined(one) as RunRequest),
        remove: input.remove,
        name: input.name,
        finalize: input.finalize === true,
      });
      return { ...(await viewBatch(deps, batch)), ...(input.add ? { added } : {}) };
    },
  });
}

const maxCancelMs = 10_000;

function cancelBatch(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.cancelBatch,
    title: 'Cancel batch',
    description:
      'Cancels the waiting jobs of a batch. Running jobs continue, and ended jobs keep their results. Agents use cancel_job on the parent.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ batchId }) => [batchId] },
    cli: { words: ['batch', 'cancel'], args: ['batchId'] },
    text: batchText,
    run: async (input, { caller }) => {
      const { batches, jobs, waiting } = deps;
      const { id } = await batches.get(input.batchId, caller, input.endpointId);
      await jobs.cancel(id, caller!.owner);
      const waitForEnd = await waiting.waitForEnd(id, AbortSignal.timeout(maxCancelMs));
      return viewBatch(deps, waitForEnd ?? (await jobs.get(id)));
    },
  });
}

function getBatch(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.getBatch,
    title: 'Get batch',
    description:
      'Shows one batch of an endpoint with its counts. Agents use get_job on the parent.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ batchId }) => [batchId] },
    http: { method: 'GET', path: '/api/batches/{batchId}' },
    cli: { words: ['batch', 'show'], args: ['batchId'] },
    text: batchText,
    run: async (input, { caller }) =>
      viewBatch(deps, await deps.batches.get(input.batchId, caller, input.endpointId)),
  });
}

function listBatches(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listBatches,
    title: 'List batches',
    description: 'Lists the batches of an endpoint, newest first, with their counts.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/batches' },
    cli: {
      words: ['batch', 'list'],
      args: ['endpointId'],
      table: { rows: 'batches', columns: ['id', 'status', 'name', 'state'] },
    },
    run: async (input, { caller }) => {
      const endpoint = await deps.endpoints.get(input.endpointId, caller);
      const filter = {
        kinds: ['batch'],
        queue: endpoint.id,
        ...(caller!.admin ? {} : { owner: caller!.owner }),
      };
      const page = await deps.jobs.ledger.list(filter, { limit: input.limit });
      return { batches: await Promise.all(page.jobs.map((batch) => viewBatch(deps, batch))) };
    },
  });
}

function listBatchJobs(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listBatchJobs,
    title: 'List batch jobs',
    description:
      'Lists the jobs of a batch in order, with status and output, page by page. Use it to collect the results of run_batch. For counts alone, get_job on the parent is cheaper. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ batchId }) => [batchId] },
    toolsets: ['endpoints'],
    pages: true,
    http: { method: 'GET', path: '/api/batches/{batchId}/jobs' },
    cli: {
      words: ['batch', 'jobs'],
      args: ['batchId'],
      table: { rows: 'jobs', columns: ['id', 'status', 'output', 'error'] },
    },
    run: async ({ batchId, offset, limit }, { caller, maxResponseBytes }) => {
      const batch = await deps.batches.get(batchId, caller);
      const { total } = await deps.batches.counts(batch);
      const queued = await deps.batches.children(batch, { offset, limit });
      const jobs = queued.map((job) => viewEndpointJob(deps, job));
      if (batch.stage === 'draft') {
        const drafts = (await deps.batches.drafts(batch, { offset, limit })).slice(offset);
        for (const { jobId: id, body } of drafts)
          jobs.push({
            id,
            endpointId: batch.queue,
            status: 'queued',
            retries: 0,
            createdAt: isoTime(batch.createdAt),
            input: (decodeJson(body)?.value as RunRequest | undefined)?.input,
          });
      }
      const { shown, ...left } = fitItems(jobs, maxResponseBytes, 'pass nextOffset as `offset`');
      const next = offset + (shown.length < jobs.length ? shown.length : limit);
      const hasMore = next < total;
      return { jobs: shown, total, hasMore, ...(hasMore ? { nextOffset: next } : {}), ...left };
    },
  });
}

async function viewBatch(deps: EndpointDeps, batch: Job): Promise<BatchView> {
  if (batch.kind !== 'batch') throw new AppError('notFound', 'The job is not a batch.');
  const byStatus = await deps.batches.counts(batch);
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
