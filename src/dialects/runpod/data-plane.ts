// RunPod's data plane: /v2/{endpointId}/run, status, stream … as its SDKs and its MCP server call it.
import type { DialectCall, DialectRequest, DialectResponse, DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { bodyOf, isOver, jobBody, objectOf, statusOf, waitOf, type EndpointJob } from './words.ts';

const mebibyte = 1024 * 1024;
/** RunPod says MB and means these. */
const runBytesMax = 10 * mebibyte;
export const runsyncBytesMax = 20 * mebibyte;
const runsyncWaitMs = 90_000;
const streamWaitMs = 10_000;

export type Handle = (
  request: DialectRequest,
  call: DialectCall,
  params: Record<string, string>,
) => Promise<DialectResponse>;

/** One route per method. */
export function dataRoutes(
  methods: readonly DialectRoute['method'][],
  path: string,
  handle: Handle,
  bodyBytesMax = runBytesMax,
): DialectRoute[] {
  return methods.map((method) => ({
    method,
    path: `/v2/{endpointId}${path}`,
    auth: 'key',
    bodyBytesMax,
    waits: true,
    handle: (request, call) => handle(request, call, request.params),
  }));
}

export const ok = (body: unknown): DialectResponse => ({ status: 200, body });

export const dataPlane: DialectRoute[] = [
  ...dataRoutes(['POST'], '/run', run),
  ...dataRoutes(['POST'], '/runsync', runsync, runsyncBytesMax),
  ...dataRoutes(['GET', 'POST'], '/status/{jobId}', status),
  ...dataRoutes(['GET', 'POST'], '/status-sync/{jobId}', statusSync),
  ...dataRoutes(['GET', 'POST'], '/stream/{jobId}', stream),
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
    handle: async ({ params, query }, { operations, context }) => {
      const wish = { attemptId: params.attemptId, token: query.get('token') ?? '' };
      return ok(await operations.call('notice_remote', wish, context));
    },
  },
];

async function run(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const job = await submit(request, call, {});
  return ok({ id: job.id, status: statusOf(job) });
}

async function runsync(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const waitMs = waitOf(request, runsyncWaitMs);
  const job = await submit(request, call, { waitMs });
  const body = jobBody(job);
  return ok(isOver(statusOf(job)) ? body : { id: job.id, status: body.status });
}

export function submit(
  request: DialectRequest,
  { operations, context }: DialectCall,
  more: Record<string, unknown>,
): Promise<EndpointJob> {
  const wish = submission(bodyOf(request));
  return operations.call<EndpointJob>(
    'submit_endpoint_job',
    {
      ...wish,
      ...more,
      endpointId: request.params.endpointId,
      ...keyOf(request),
    },
    context,
  );
}

function keyOf({ headers }: DialectRequest): { idempotencyKey?: string } {
  const key = headers['idempotency-key'];
  return typeof key === 'string' && key !== '' ? { idempotencyKey: key } : {};
}

/** The body of /run as our fields. */
export function submission(value: unknown): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || !('input' in value)) {
    throw new AppError('invalidInput', 'The request has no `input`.', {
      hint: 'Send {"input": …}; it may be any JSON, also {}.',
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
  { operations, context }: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const ttl = request.query.get('ttl');
  const more = ttl === null ? {} : { ttlMs: Number(ttl) };
  const wish = { endpointId, id: jobId, ...more };
  return ok(jobBody(await operations.call<EndpointJob>('get_endpoint_job', wish, context)));
}

async function statusSync(
  request: DialectRequest,
  { operations, context }: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const wish = { endpointId, id: jobId, waitMs: waitOf(request, runsyncWaitMs) };
  return ok(jobBody(await operations.call<EndpointJob>('get_endpoint_job', wish, context)));
}

async function stream(
  request: DialectRequest,
  { operations, context }: DialectCall,
  { endpointId, jobId }: Record<string, string>,
): Promise<DialectResponse> {
  const after = request.query.get('after');
  const place = { endpointId, id: jobId };
  if (after !== null) return streamAfter(Number(after), { operations, context }, place);
  const wish = { ...place, waitMs: waitOf(request, streamWaitMs) };
  const answer = await operations.call<{
    status: string;
    stage: string | null;
    chunks: unknown[];
    error: unknown;
  }>('drain_stream', wish, context);
  return ok({
    status: statusOf(answer),
    stream: answer.chunks.map((output) => ({ output })),
  });
}

/** Beyond RunPod: reads from a number on and takes nothing away, so that a lost answer loses no chunk. */
async function streamAfter(
  after: number,
  { operations, context }: DialectCall,
  place: Place,
): Promise<DialectResponse> {
  // Of another endpoint it is unknown, as everywhere.
  await operations.call('get_endpoint_job', place, context);
  const answer = await operations.call<{
    status: string;
    stage: string | null;
    chunks: { n: number; output: unknown }[];
  }>('follow_stream', { id: place.id, after, limit: 1000 }, context);
  return ok({ status: statusOf(answer), stream: answer.chunks });
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
  return ok(await purgeQueue(endpointId, call));
}

/** What routes and tools do alike. */
interface Place {
  endpointId: unknown;
  id: unknown;
  idempotencyKey?: string;
}

export async function cancelJob(place: Place, { operations, context }: DialectCall) {
  const job = await operations.call<EndpointJob>('cancel_endpoint_job', place, context);
  return { id: job.id, status: statusOf(job) };
}

export async function retryJob(place: Place, { operations, context }: DialectCall) {
  try {
    const job = await operations.call<EndpointJob>('retry_endpoint_job', place, context);
    return { id: job.id, status: statusOf(job) };
  } catch (error) {
    if (!(error instanceof AppError) || typeof error.data?.status !== 'string') throw error;
    throw new AppError('wrongState', `The job is ${statusOf({ status: error.data.status })}.`, {
      hint: 'Only FAILED and TIMED_OUT jobs can be retried; a new one is started with run.',
    });
  }
}

export async function purgeQueue(endpointId: unknown, { operations, context }: DialectCall) {
  const wish = { endpointId };
  const { removed } = await operations.call<{ removed: number }>('purge_queue', wish, context);
  return { removed, status: 'completed' };
}

interface EndpointHealth {
  jobs: Record<string, number>;
  workers: Record<string, number>;
}

/** Counts of jobs and workers of an endpoint. */
export async function healthOf(
  endpointId: unknown,
  { operations, context }: DialectCall,
): Promise<EndpointHealth> {
  const wish = { id: endpointId };
  return (await operations.call<{ health: EndpointHealth }>('get_endpoint', wish, context)).health;
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
  const list = await call.operations.call<{ workers: { id: string; status: string }[] }>(
    'list_workers',
    { endpointId },
    call.context,
  );
  const ready = list.workers.filter(({ status: word }) => word === 'IDLE' || word === 'RUNNING');
  return ok({ readyWorkers: ready.map(({ id }) => id), workers });
}

async function requests(
  request: DialectRequest,
  { operations, context }: DialectCall,
  { endpointId }: Record<string, string>,
): Promise<DialectResponse> {
  const { query } = request;
  const key = query.get('idempotencyKey');
  const retryOf = query.get('retryOf');
  const answer = await operations.call<{ jobs: EndpointJob[]; next?: number }>(
    'list_endpoint_jobs',
    {
      endpointId,
      ...(query.get('limit') === null ? {} : { limit: Number(query.get('limit')) }),
      ...(query.get('cursor') === null ? {} : { cursor: Number(query.get('cursor')) }),
      ...(key === null ? {} : { idempotencyKey: key }),
      ...(retryOf === null ? {} : { retryOf }),
    },
    context,
  );
  return ok({
    requests: answer.jobs.map((job) => jobBody(job)),
    // Says that this server knows such keys: an empty list is then certain.
    ...(key === null ? {} : { idempotencyKey: key }),
    ...(retryOf === null ? {} : { retryOf }),
    ...(answer.next === undefined ? {} : { cursor: String(answer.next) }),
  });
}
