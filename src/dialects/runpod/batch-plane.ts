// RunPod's batch routes, translated to batch operations.
import type { OutputOf } from '../../contract.ts';
import {
  cancelBatch,
  changeBatch,
  draftBatch,
  getBatch,
  listBatchJobs,
  listBatches,
} from '../../kinds/endpoint/contracts/batches.ts';
import {
  callUnchecked,
  type DialectCall,
  type DialectRequest,
  type DialectRoute,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { dataRoutes, ok, submission } from './data-plane.ts';
import { bodyOf, jobBody, objectOf, type EndpointJob } from './translate.ts';

type Batch = OutputOf<typeof changeBatch>;

export const batchPlane: DialectRoute[] = [
  ...dataRoutes(['POST'], '/batch', async (request, call) => {
    // An empty body creates an empty draft.
    const list = request.body.length === 0 ? [] : bodyOf(request);
    const input = { endpointId: request.params.endpointId, requests: requestsOf(list) };
    const batch = await callUnchecked(call, draftBatch, input);
    return ok({ id: batch.id, status: 'DRAFT' });
  }),
  ...dataRoutes(['GET'], '/batch', async ({ params }, call) => {
    const { endpointId } = params;
    const { batches } = await callUnchecked(call, listBatches, { endpointId });
    return ok({ batches: batches.map(batchBody) });
  }),
  ...dataRoutes(['GET'], '/batch/{batchId}', async ({ params }, call) => {
    const { endpointId, batchId } = params;
    const input = { endpointId, batchId };
    return ok(batchBody(await callUnchecked(call, getBatch, input)));
  }),
  ...dataRoutes(['PUT'], '/batch/{batchId}', async (request, call) => {
    const { name } = objectOf(bodyOf(request));
    return ok(batchBody(await change(request, call, { name })));
  }),
  ...dataRoutes(['POST'], '/batch/{batchId}/requests', async (request, call) => {
    const { requests } = objectOf(bodyOf(request));
    const { added = [] } = await change(request, call, { add: requestsOf(requests) });
    return ok({ requests: added.map((id) => ({ id })) });
  }),
  ...dataRoutes(['DELETE'], '/batch/{batchId}/requests/{jobId}', async (request, call) => {
    await change(request, call, { remove: request.params.jobId });
    return ok({});
  }),
  ...dataRoutes(['POST'], '/batch/{batchId}/finalize', async (request, call) =>
    ok(batchBody(await change(request, call, { finalize: true }))),
  ),
  ...dataRoutes(['POST'], '/batch/{batchId}/cancel', async ({ params }, call) => {
    const { endpointId, batchId } = params;
    const input = { endpointId, batchId };
    return ok(batchBody(await callUnchecked(call, cancelBatch, input)));
  }),
  ...dataRoutes(['GET'], '/batch/{batchId}/requests', async ({ params, query }, call) => {
    const offset = Number(query.get('offset') ?? 0);
    const limit = Number(query.get('limit') ?? 100);
    const { endpointId, batchId } = params;
    await callUnchecked(call, getBatch, { endpointId, batchId });
    const page = await callUnchecked(call, listBatchJobs, { batchId, offset, limit });
    const { total, hasMore } = page;
    return ok({ requests: page.jobs.map(requestBody), total, offset, limit, hasMore });
  }),
];

function change(
  request: DialectRequest,
  call: DialectCall,
  more: Record<string, unknown>,
): Promise<Batch> {
  const { endpointId, batchId } = request.params;
  return callUnchecked(call, changeBatch, { endpointId, batchId, ...more });
}

function requestsOf(value: unknown): Record<string, unknown>[] {
  if (Array.isArray(value)) return value.map((one) => submission(one));
  throw new AppError('invalidInput', 'The requests are not an array.', {
    hint: 'Send [{"input": …}, …] to /batch, {"requests": [{"input": …}, …]} to /requests.',
  });
}

/** There is no running or completed state: a batch has ended when completed + failed equals the total. */
function batchBody(batch: Batch): Record<string, unknown> {
  const { counts } = batch;
  const status = batch.status === 'cancelled' ? 'CANCELLED' : batch.draft ? 'DRAFT' : 'FINALIZED';
  return {
    id: batch.id,
    endpointId: batch.endpointId,
    ...(batch.name === undefined ? {} : { name: batch.name }),
    status,
    requestTotal: counts.total,
    requestInProgress: counts.running,
    requestCompleted: counts.completed,
    requestFailed: (counts.failed ?? 0) + (counts.cancelled ?? 0),
    createdAt: Date.parse(batch.createdAt),
  };
}

function requestBody(job: EndpointJob): Record<string, unknown> {
  const { output, error, ...rest } = jobBody(job);
  return {
    id: job.id,
    status: rest.status,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
    ...(job.startedAt === undefined ? {} : { startedAt: Date.parse(job.startedAt) }),
    ...(job.finishedAt === undefined ? {} : { completedAt: Date.parse(job.finishedAt) }),
  };
}
