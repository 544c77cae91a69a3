// RunPod's data plane: /v2/{endpointId}/run, status, stream … as its SDKs and its MCP server call it.
import type { OutputOf } from '../../contract.ts';
import { getEndpoint, purgeQueue } from '../../kinds/endpoint/contracts/endpoints.ts';
import {
  cancelEndpointJob,
  drainStream,
  followStream,
  getEndpointJob,
  listEndpointJobs,
  noticeRemote,
  retryEndpointJob,
  submitEndpointJob,
} from '../../kinds/endpoint/contracts/jobs.ts';
import { listWorkers } from '../../kinds/endpoint/contracts/workers.ts';
import {
  callUnchecked,
  type DialectCall,
  type DialectRequest,
  type DialectResponse,
  type DialectRoute,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import {
  bodyOf,
  isOver,
  jobBody,
  objectOf,
  statusOf,
  waitOf,
  type EndpointJob,
} from './translate.ts';

const mebibyte = 1024 * 1024;
/** RunPod documents these as MB. */
const maxRunBytes = 10 * mebibyte;
export const maxRunsyncBytes = 20 * mebibyte;
const runsyncWaitMs = 90_000;
const streamWaitMs = 10_000;

type Handle = (
  request: DialectRequest,
  call: DialectCall,
  params: Record<string, string>,
) => Promise<DialectResponse>;

/** One route per method. */
export function dataRoutes(
  methods: readonly DialectRoute['method'][],
  path: string,
  handle: Handle,
  maxBodyBytes = maxRunBytes,
): DialectRoute[] {
  return methods.map((method) => ({
    method,
    path: `/v2/{endpointId}${path}`,
    auth: 'key',
    maxBodyBytes,
    handle: (request, call) => handle(request, call, request.params),
  }));
}

/** Their responses may take long: they end when the server stops or their key is revoked. */
export function waitingRoutes(...route: Parameters<typeof dataRoutes>): DialectRoute[] {
  return dataRoutes(...route).map((each) => ({ ...each, waits: true }));
}

export const ok = (body: unknown): DialectResponse => ({ status: 200, body });

export const dataPlane: DialectRoute[] = [
  ...dataRoutes(['POST'], '/run', run),
  ...waitingRoutes(['POST'], '/runsync', runsync, maxRunsyncBytes),
  ...dataRoutes(['GET', 'POST'], '/status/{jobId}', status),
  ...waitingRoutes(['GET', 'POST'], '/status-sync/{jobId}', statusSync),
  ...waitingRoutes(['GET', 'POST'], '/stream/{jobId}', stream),
  ...dataRoutes(['POST'], '/cancel/{jobId}', cancel),
  ...dataRoutes(['POST'], '/retry/{jobId}', retry),
  ...dataRoutes(['POST'], '/purge-queue', purge),
  ...dataRoutes(['GET'], '/health', health),
  ...dataRoutes(['GET'], '/metrics', metrics),
  ...dataRoutes(['GET'], '/requests', requests),
  {
    method: 'POST',
    path: '/v2/hooks/{attemptId}',
    auth: 'none',
    handle: async ({ params, query }, call) => {
      const input = { attemptId: params.attemptId, token: query.get('token') ?? '' };
      return ok(await callUnchecked(call, noticeRemote, input));
    },
  },
];

async function run(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const job = await submit(request, call, {});
  return ok({ id: job.id, status: statusOf(job) });
}

async function runsync(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const waitMs = waitOf(request, runsyncWaitMs);
  const job = await submit(request, call, { waitMs, connection: 'request' });
  const body = jobBody(job);
  return ok(isOver(statusOf(job)) ? body : { id: job.id, status: body.status });
}

function submit(
  request: DialectRequest,
  call: DialectCall,
  more: Record<string, unknown>,
): Promise<EndpointJob> {
  const input = submission(bodyOf(request));
  return callUnchecked(call, submitEndpointJob, {
    ...input,
    ...more,
    endpointId: request.params.endpointId,
    ...keyOf(request),
  });
}

function keyOf({ headers }: DialectRequest): { idempotencyKey?: string } {
  const key = headers['idempotency-key'];
  return typeof key === 'string' && key !== '' ? { idempotencyKey: key } : {};
}

/** Translates the body of /run to our fields. */
export function submission(value: unknown): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || !('input' in value)) {
    throw new AppError('invalidInput', 'The request has no `input`.', {
      hint: 'Send {"input": …} with any JSON value. {} is allowed.',
    });
  }
  const { input, webhook, s3Config, policy } = value as Record<string, unknown>;
  const { executionTimeout, ttl, lowPriority } = objectOf(policy ?? {}, '`policy`');
  return {
    input,
    ...(webhook ? { webhook } : {}),
    ...(s3Config ? { s3Config } : {}),
    ...(executionTimeout ? { executionTimeoutMs: executionTimeout } : {}),
    ...(ttl ? { ttlMs: ttl } : {}),
    ...(lowPriority ? { lowPriority } : {}),
  };
}

async function status(
  request: DialectRequest,
  call: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const ttl = request.query.get('ttl');
  const more = ttl === null ? {} : { ttlMs: Number(ttl) };
  const input = { endpointId, id: jobId, ...more };
  return ok(jobBody(await callUnchecked(call, getEndpointJob, input)));
}

async function statusSync(
  request: DialectRequest,
  call: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const input = { endpointId, id: jobId, waitMs: waitOf(request, runsyncWaitMs) };
  return ok(jobBody(await callUnchecked(call, getEndpointJob, input)));
}

async function stream(
  request: DialectRequest,
  call: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const after = request.query.get('after');
  const place = { endpointId, id: jobId };
  if (after !== null) return streamAfter(Number(after), call, place);
  const input = { ...place, waitMs: waitOf(request, streamWaitMs) };
  const result = await callUnchecked(call, drainStream, input);
  return ok({
    status: statusOf(result),
    stream: result.chunks.map((output) => ({ output })),
  });
}

/**
 * Extension of RunPod's API: reads after a given number without consuming chunks, so that a lost response loses
 * none.
 */
async function streamAfter(
  after: number,
  call: DialectCall,
  place: Place,
): Promise<DialectResponse> {
  // A job of another endpoint counts as unknown.
  await callUnchecked(call, getEndpointJob, place);
  const result = await callUnchecked(call, followStream, { id: place.id, after, limit: 1000 });
  return ok({ status: statusOf(result), stream: result.chunks });
}

async function cancel(
  _request: DialectRequest,
  call: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  return ok(await cancelJob({ endpointId, id: jobId }, call));
}

async function retry(
  request: DialectRequest,
  call: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  return ok(await retryJob({ endpointId, id: jobId, ...keyOf(request) }, call));
}

async function purge(
  _request: DialectRequest,
  call: DialectCall,
  { endpointId }: Record<string, string>,
): Promise<DialectResponse> {
  return ok(await emptyQueue(endpointId, call));
}

/** Shared by routes and tools. */
interface Place {
  endpointId: unknown;
  id: unknown;
  idempotencyKey?: string;
}

export async function cancelJob(place: Place, call: DialectCall) {
  const job = await callUnchecked(call, cancelEndpointJob, place);
  return { id: job.id, status: statusOf(job) };
}

export async function retryJob(place: Place, call: DialectCall) {
  try {
    const job = await callUnchecked(call, retryEndpointJob, place);
    return { id: job.id, status: statusOf(job) };
  } catch (error) {
    if (!(error instanceof AppError) || typeof error.data?.status !== 'string') throw error;
    throw new AppError('wrongState', `The job is ${statusOf({ status: error.data.status })}.`, {
      hint: 'Only FAILED and TIMED_OUT jobs can be retried. Start a new job with run.',
    });
  }
}

export async function emptyQueue(endpointId: unknown, call: DialectCall) {
  const input = { endpointId };
  const { removed } = await callUnchecked(call, purgeQueue, input);
  return { removed, status: 'completed' };
}

type EndpointHealth = OutputOf<typeof getEndpoint>['health'];

/** Counts jobs and workers of an endpoint. */
export async function healthOf(endpointId: unknown, call: DialectCall): Promise<EndpointHealth> {
  const input = { id: endpointId };
  return (await callUnchecked(call, getEndpoint, input)).health;
}

async function health(
  _request: DialectRequest,
  call: DialectCall,
  { endpointId }: Record<string, string>,
): Promise<DialectResponse> {
  return ok(await healthOf(endpointId, call));
}

async function metrics(
  _request: DialectRequest,
  call: DialectCall,
  { endpointId }: Record<string, string>,
): Promise<DialectResponse> {
  const { workers } = await healthOf(endpointId, call);
  const list = await callUnchecked(call, listWorkers, { endpointId });
  const ready = list.workers.filter(({ status: word }) => word === 'IDLE' || word === 'RUNNING');
  return ok({ readyWorkers: ready.map(({ id }) => id), workers });
}

async function requests(
  request: DialectRequest,
  call: DialectCall,
  { endpointId }: Record<string, string>,
): Promise<DialectResponse> {
  const { query } = request;
  const key = query.get('idempotencyKey');
  const retryOf = query.get('retryOf');
  const result = await callUnchecked(call, listEndpointJobs, {
    endpointId,
    ...(query.get('limit') === null ? {} : { limit: Number(query.get('limit')) }),
    ...(query.get('cursor') === null ? {} : { cursor: Number(query.get('cursor')) }),
    ...(key === null ? {} : { idempotencyKey: key }),
    ...(retryOf === null ? {} : { retryOf }),
  });
  return ok({
    requests: result.jobs.map((job) => jobBody(job)),
    // Shows that this server supports such keys, so that an empty list is definitive.
    ...(key === null ? {} : { idempotencyKey: key }),
    ...(retryOf === null ? {} : { retryOf }),
    ...(result.next === undefined ? {} : { cursor: String(result.next) }),
  });
}
