// The worker plane: job-take, job-stop, job-done, job-stream, ping, as an unmodified `runpod` worker calls them. Long
// polls are held open, because a quick empty response would make the worker poll again immediately.
import type { OutputOf } from '../../contract.ts';
import {
  addStreamChunk,
  finishEndpointJob,
  pingWorker,
  pollStops,
  takeJobs,
} from '../../kinds/endpoint/contracts/workers.ts';
import {
  callUnchecked,
  type DialectCall,
  type DialectRequest,
  type DialectResponse,
  type DialectRoute,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { dataRoutes, ok, waitingRoutes } from './data-plane.ts';

/** Below the 90 s after which the worker gives up, and the 60 s timeout of common proxies. */
const holdMs = 45_000;
/** Maximum size of one request. Results over RunPod's 20 MB are accepted. */
const maxResultBytes = 512 * 1024 * 1024;
const maxCount = 1000;

type Taken = OutputOf<typeof takeJobs>;

const nothing: DialectResponse = { status: 204 };

const routes: DialectRoute[] = [
  ...waitingRoutes(['GET'], '/job-take/{workerId}', async (request, call) => {
    const { jobs } = await take(request, call, 1);
    return jobs[0] ? jobsResponse(request, jobs, ([job]) => job) : nothing;
  }),
  ...waitingRoutes(['GET'], '/job-take-batch/{workerId}', async (request, call) => {
    const asked = Number(request.query.get('batch_size') ?? 1);
    const count = Number.isInteger(asked) ? Math.min(Math.max(asked, 1), maxCount) : 1;
    const { jobs } = await take(request, call, count);
    return jobs.length > 0 ? jobsResponse(request, jobs, (all) => all) : nothing;
  }),
  ...waitingRoutes(['GET'], '/job-stop/{workerId}', async ({ params }, call) => {
    const { endpointId, workerId } = params;
    const { jobIds } = await callUnchecked(call, pollStops, {
      endpointId,
      workerId,
      waitMs: holdMs,
    });
    return jobIds.length > 0 ? ok({ jobsToStop: jobIds }) : nothing;
  }),
  ...dataRoutes(
    ['POST'],
    '/job-done/{workerId}/{jobId}',
    (request, call) => post(finishEndpointJob, request, call),
    maxResultBytes,
  ),
  ...dataRoutes(
    ['POST'],
    '/job-stream/{workerId}/{jobId}',
    (request, call) => post(addStreamChunk, request, call),
    maxResultBytes,
  ),
  ...dataRoutes(['GET', 'POST'], '/ping/{workerId}', ping),
];

export const workerPlane = routes.map((route): DialectRoute => ({
  ...route,
  handle: (request, call) => route.handle(request, call).catch((error) => refuse(error, request)),
}));

/** A key that is not valid for this worker plane is reported as a wrong key, as RunPod does. */
function refuse(error: unknown, { params }: DialectRequest): never {
  if (!(error instanceof AppError) || error.code !== 'forbidden') throw error;
  const name = params.endpointId!.slice(0, 80);
  throw new AppError('unauthorized', `This key is not a worker key of endpoint ${name}.`, {
    hint: 'Create a worker key for this endpoint: `errand key create --scopes worker --subject endpoint:<id>`.',
    cause: error,
  });
}

/**
 * RunPod's workers do not know attempts. Our relay gets them in an extra first line and forwards the rest
 * unchanged.
 */
function jobsResponse(
  { query }: DialectRequest,
  taken: Taken['jobs'],
  form: (jobs: readonly object[]) => unknown,
): DialectResponse {
  const jobs = form(taken.map(({ attemptId: _attemptId, ...job }) => job));
  if (query.get('relay') === null) return ok(jobs);
  const attempts = Object.fromEntries(taken.map(({ id, attemptId }) => [id, attemptId]));
  return ok(`${JSON.stringify(attempts)}\n${JSON.stringify(jobs)}`);
}

function take(request: DialectRequest, call: DialectCall, count: number): Promise<Taken> {
  const { endpointId, workerId } = request.params;
  const named = request.query.get('running');
  const running = named === null ? {} : { running: named.split(',').filter((id) => id !== '') };
  const idle = request.query.get('job_in_progress') === '0' ? { idle: true } : {};
  const input = { endpointId, workerId, count, waitMs: holdMs, ...running, ...idle };
  return callUnchecked(call, takeJobs, input);
}

/** Stale posts return 2xx: after a 4xx the worker would drop its result, after a 5xx send it again. */
async function post(
  contract: typeof finishEndpointJob | typeof addStreamChunk,
  { params, body, query }: DialectRequest,
  call: DialectCall,
): Promise<DialectResponse> {
  const { endpointId, workerId, jobId } = params;
  const n = query.get('n');
  const number = n === null ? {} : { n: Number(n) };
  const attempt = query.get('attempt');
  const fence = attempt === null ? {} : { attemptId: attempt };
  const input = { endpointId, workerId, jobId, body, ...number, ...fence };
  await callUnchecked(call, contract, input);
  return ok({});
}

async function ping({ params, query }: DialectRequest, call: DialectCall) {
  const { endpointId, workerId } = params;
  const ids = query.get('job_id');
  const sick = query.get('status') === 'unhealthy';
  const reason = `${query.get('check') ?? 'check'}: ${query.get('reason') ?? ''}`.slice(0, 500);
  await callUnchecked(call, pingWorker, {
    endpointId,
    workerId,
    jobIds: ids ? ids.split(',').filter((id) => id !== '') : [],
    ...(sick ? { unhealthy: reason } : {}),
  });
  return ok({});
}
