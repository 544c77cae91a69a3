// RunPod's control plane: /v2/serverless…, in the format that its MCP server reads.
import type { EndpointView } from '../../kinds/endpoint/contracts/endpoints.ts';
import type { OutputOf } from '../../contract.ts';
import {
  deleteEndpoint,
  getEndpoint,
  listEndpoints,
  listReleases,
  saveEndpoint,
} from '../../kinds/endpoint/contracts/endpoints.ts';
import { readWorkerLog } from '../../kinds/endpoint/contracts/workers.ts';
import {
  callUnchecked,
  type DialectCall,
  type DialectRequest,
  type DialectResponse,
  type DialectRoute,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { endpointBody, endpointFields } from './endpoint-shape.ts';
import { bodyOf, objectOf } from './translate.ts';
import { endpointWorkers, noWorkerId, noWorkerLine } from './worker-list.ts';

/** RunPod's default for endpoints created through this API. */
const createdTimeoutMs = 300_000;

type Handle = (request: DialectRequest, call: DialectCall, id: string) => Promise<DialectResponse>;

function route(method: DialectRoute['method'], path: string, handle: Handle): DialectRoute {
  return {
    method,
    path: `/v2/serverless${path}`,
    auth: 'key',
    waits: true,
    handle: (request, call) => handle(request, call, request.params.id ?? ''),
  };
}

export const controlPlane: DialectRoute[] = [
  route('GET', '', async (request, call) => {
    const { endpoints } = await callUnchecked(call, listEndpoints, { limit: 1000 });
    return {
      status: 200,
      body: { endpoints: endpoints.map((view) => endpointBody(view, request.baseUrl)) },
    };
  }),
  route('POST', '', create),
  route('GET', '/{id}', async (request, call, id) => ({
    status: 200,
    body: endpointBody(await get(call, id), request.baseUrl),
  })),
  route('PATCH', '/{id}', update),
  route('DELETE', '/{id}', async (_request, call, id) => {
    await callUnchecked(call, deleteEndpoint, { id });
    return { status: 204 };
  }),
  route('GET', '/{id}/workers', async (_request, call, id) => ({
    status: 200,
    body: await endpointWorkers(id, call),
  })),
  route('GET', '/{id}/workers/{workerId}/logs', logs),
  route('GET', '/{id}/releases', releases),
  route('GET', '/{id}/builds', async (_request, call, id) => {
    await get(call, id);
    return { status: 200, body: { builds: [] } };
  }),
  route('GET', '/{id}/builds/{buildId}', async (request) => {
    throw new AppError('notFound', `Build ${request.params.buildId} does not exist.`, {
      hint: 'This server does not build endpoints from a repository. list-endpoint-releases shows versions.',
    });
  }),
];

function get(call: DialectCall, id: string): Promise<EndpointView> {
  return callUnchecked(call, getEndpoint, { id });
}

export async function createEndpoint(value: unknown, call: DialectCall): Promise<EndpointView> {
  const body = objectOf(value);
  const missing = ['name', 'type', 'scaling'].filter((field) => body[field] === undefined);
  if (missing.length > 0) {
    throw new AppError('invalidInput', 'Required fields are missing.', {
      data: { issues: missing.map((field) => ({ path: '', message: `missing '${field}'` })) },
    });
  }
  const fields = { executionTimeoutMs: createdTimeoutMs, ...endpointFields(body) };
  return callUnchecked(call, saveEndpoint, { ...fields, create: true });
}

export async function updateEndpoint(
  id: string,
  value: unknown,
  call: DialectCall,
): Promise<EndpointView> {
  const before = await get(call, id);
  const fields = endpointFields(objectOf(value), before);
  return callUnchecked(call, saveEndpoint, { id, ...fields });
}

async function create(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const view = await createEndpoint(bodyOf(request), call);
  return { status: 201, body: endpointBody(view, request.baseUrl) };
}

async function update(
  request: DialectRequest,
  call: DialectCall,
  id: string,
): Promise<DialectResponse> {
  const view = await updateEndpoint(id, bodyOf(request), call);
  return { status: 200, body: endpointBody(view, request.baseUrl) };
}

type Releases = OutputOf<typeof listReleases>;

async function releases(
  _request: DialectRequest,
  call: DialectCall,
  id: string,
): Promise<DialectResponse> {
  const input = { endpointId: id };
  const found = await callUnchecked(call, listReleases, input);
  return { status: 200, body: releasesBody(found) };
}

export function releasesBody(found: Releases): Record<string, unknown> {
  const { version, workers, workersOnLatest } = found;
  return {
    endpointVersion: version,
    rollout: {
      inProgress: workersOnLatest < workers,
      workersOnLatest,
      workersTotal: workers,
      percentOnLatest: workers === 0 ? 100 : Math.round((100 * workersOnLatest) / workers),
    },
    releases: found.releases.map((release) => ({
      id: `release-${release.version}`,
      version: release.version,
      source: 'MANUAL',
      buildId: null,
      createdByUserId: release.by,
      workerCount: release.workers,
      createdAt: release.createdAt,
      diff: release.diff,
    })),
  };
}

interface LogItem {
  ts: string;
  source: string;
  line: string;
}

async function logs(
  request: DialectRequest,
  call: DialectCall,
  id: string,
): Promise<DialectResponse> {
  const { query, headers, params } = request;
  const last = headers['last-event-id'];
  const tail = query.get('tail');
  const input = {
    endpointId: id,
    workerId: params.workerId,
    ...(query.get('source') === null ? {} : { source: query.get('source') }),
    ...(tail === null ? {} : { tail: Number(tail) }),
    ...(query.get('since') === null ? {} : { since: query.get('since') }),
    ...(typeof last === 'string' ? { cursor: last } : {}),
  };
  const isNone = params.workerId === noWorkerId;
  // Called once before the stream opens, so that an unknown worker is a 404 instead of an empty stream.
  if (!isNone) await callUnchecked(call, readWorkerLog, input);
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
    stream: isNone ? noWorkerFrames(id, call) : frames(input, call),
  };
}

async function* frames(input: unknown, call: DialectCall): AsyncIterable<string> {
  // Sends the headers immediately, even if nothing was printed yet.
  yield ': log\n\n';
  for await (const { id, data } of call.operations.stream('read_worker_log', input, call.context)) {
    const { ts, source, line } = data as LogItem;
    yield `id: ${id}\ndata: ${JSON.stringify({ ts, source, line })}\n\n`;
  }
}

async function* noWorkerFrames(endpointId: string, call: DialectCall): AsyncIterable<string> {
  const line = await noWorkerLine(endpointId, call);
  yield `id: ${line.ts}/${'0'.repeat(12)}\ndata: ${JSON.stringify(line)}\n\n`;
}
