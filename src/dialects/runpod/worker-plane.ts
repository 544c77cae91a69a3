// The worker plane: job-take, job-stop, job-done, job-stream, ping, as an unmodified `runpod` worker calls them. Long
// polls are held: a quick empty answer would make the worker ask again at once.
import type { DialectCall, DialectRequest, DialectResponse, DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { dataRoutes, ok } from './data-plane.ts';

/** Below the 90 s after which the worker gives up, and the 60 s of common proxies. */
const holdMs = 45_000;
/** Results are never refused for being over RunPod's 20 MB; this is what one request may hold. */
const resultBytesMax = 512 * 1024 * 1024;
const countMax = 1000;

interface Taken {
  jobs: { id: string; input: unknown }[];
}

const nothing: DialectResponse = { status: 204 };

const routes: DialectRoute[] = [
  ...dataRoutes(['GET'], '/job-take/{workerId}', async (request, call) => {
    const { jobs } = await take(request, call, 1);
    return jobs[0] ? ok(jobs[0]) : nothing;
  }),
  ...dataRoutes(['GET'], '/job-take-batch/{workerId}', async (request, call) => {
    const asked = Number(request.query.get('batch_size') ?? 1);
    const count = Number.isInteger(asked) ? Math.min(Math.max(asked, 1), countMax) : 1;
    const { jobs } = await take(request, call, count);
    return jobs.length > 0 ? ok(jobs) : nothing;
  }),
  ...dataRoutes(['GET'], '/job-stop/{workerId}', async ({ params }, call) => {
    const { endpointId, workerId } = params;
    const { jobIds } = await call.operations.call<{ jobIds: string[] }>(
      'poll_stops',
      { endpointId, workerId, waitMs: holdMs },
      call.context,
    );
    return jobIds.length > 0 ? ok({ jobsToStop: jobIds }) : nothing;
  }),
  ...dataRoutes(
    ['POST'],
    '/job-done/{workerId}/{jobId}',
    (request, call) => post('finish_endpoint_job', request, call),
    resultBytesMax,
  ),
  ...dataRoutes(
    ['POST'],
    '/job-stream/{workerId}/{jobId}',
    (request, call) => post('add_stream_chunk', request, call),
    resultBytesMax,
  ),
  ...dataRoutes(['GET', 'POST'], '/ping/{workerId}', ping),
];

export const workerPlane = routes.map((route): DialectRoute => ({
  ...route,
  handle: (request, call) => route.handle(request, call).catch((error) => refuse(error, request)),
}));

/** A key that is not for this worker plane is a wrong key, as RunPod says it. */
function refuse(error: unknown, { params }: DialectRequest): never {
  if (!(error instanceof AppError) || error.code !== 'forbidden') throw error;
  const name = params.endpointId!.slice(0, 80);
  throw new AppError('unauthorized', `This key is not for workers of ${name}.`, {
    hint: 'Every endpoint has worker keys of its own: `errand key create --scopes worker --subject endpoint:<id>`.',
    cause: error,
  });
}

function take(request: DialectRequest, call: DialectCall, count: number): Promise<Taken> {
  const { endpointId, workerId } = request.params;
  const named = request.query.get('running');
  const running = named === null ? {} : { running: named.split(',').filter((id) => id !== '') };
  const idle = request.query.get('job_in_progress') === '0' ? { idle: true } : {};
  const wish = { endpointId, workerId, count, waitMs: holdMs, ...running, ...idle };
  return call.operations.call<Taken>('take_jobs', wish, call.context);
}

/** Stale posts are answered 2xx: a 4xx would make the worker drop its result, a 5xx send it again. */
async function post(
  operation: string,
  { params, body, query }: DialectRequest,
  call: DialectCall,
): Promise<DialectResponse> {
  const { endpointId, workerId, jobId } = params;
  const n = query.get('n');
  const number = n === null ? {} : { n: Number(n) };
  const wish = { endpointId, workerId, jobId, body, ...number };
  await call.operations.call(operation, wish, call.context);
  return ok({});
}

async function ping({ params, query }: DialectRequest, call: DialectCall) {
  const { endpointId, workerId } = params;
  const ids = query.get('job_id');
  const sick = query.get('status') === 'unhealthy';
  const reason = `${query.get('check') ?? 'check'}: ${query.get('reason') ?? ''}`.slice(0, 500);
  await call.operations.call(
    'ping_worker',
    {
      endpointId,
      workerId,
      jobIds: ids ? ids.split(',').filter((id) => id !== '') : [],
      ...(sick ? { unhealthy: reason } : {}),
    },
    call.context,
  );
  return ok({});
}
