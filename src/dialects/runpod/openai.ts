// /openai/v1/*: serves OpenAI clients with an endpoint. The worker receives the route and the body as job.input, as
// RunPod's workers expect, and its output is passed through.
import {
  followStream,
  getEndpointJob,
  submitEndpointJob,
} from '../../kinds/endpoint/contracts/jobs.ts';
import {
  callUnchecked,
  type DialectCall,
  type DialectRequest,
  type DialectResponse,
  type DialectRoute,
} from '../../dialect.ts';
import { AppError, errorBody, errorKind } from '../../errors.ts';
import { maxRunsyncBytes } from './data-plane.ts';
import { inTerms } from './terms.ts';
import { bodyOf, statusOf, type EndpointJob } from './translate.ts';

/** An OpenAI client waits ten minutes by default. One operation call waits at most this long. */
const waitMs = 300_000;
const maxWaits = 2;

export const openaiRoutes: DialectRoute[] = (['GET', 'POST'] as const).map((method) => ({
  method,
  path: '/v2/{endpointId}/openai/{rest*}',
  auth: 'key',
  maxBodyBytes: maxRunsyncBytes,
  waits: true,
  handle: pass,
}));

async function pass(request: DialectRequest, call: DialectCall): Promise<DialectResponse> {
  const { endpointId, rest } = request.params;
  const body = request.method === 'GET' ? undefined : bodyOf(request);
  const input = { openai_route: `/${rest}`, openai_input: body ?? null };
  const streams = body !== null && typeof body === 'object' && 'stream' in body && body.stream;
  const connection = streams ? 'stream' : 'request';
  const job = await callUnchecked(call, submitEndpointJob, { endpointId, input, connection });
  if (streams) {
    return {
      status: 200,
      headers: { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' },
      stream: frames(job, call),
    };
  }
  const ended = await wait(job, call);
  if (ended.status !== 'completed') throw failed(ended);
  return { status: 200, body: whole(ended.output) ?? (await firstChunk(ended, call)) };
}

async function wait(job: EndpointJob, call: DialectCall): Promise<EndpointJob> {
  const input = { endpointId: job.endpointId, id: job.id, waitMs };
  for (let i = 0; i < maxWaits; i++) {
    const now = await callUnchecked(call, getEndpointJob, input);
    if (!['queued', 'running', 'input_required'].includes(now.status)) return now;
  }
  throw new AppError('timeout', `Job ${job.id} has not ended yet and continues to run.`, {
    hint: `Check it with GET /v2/${job.endpointId}/status/${job.id}.`,
  });
}

/** RunPod's workers return a list of yielded objects. A plain handler returns the object itself. */
function whole(output: unknown): unknown {
  if (!Array.isArray(output)) return output;
  return output.length > 0 ? output[0] : undefined;
}

async function firstChunk(job: EndpointJob, call: DialectCall): Promise<unknown> {
  const { chunks } = await callUnchecked(call, followStream, { id: job.id, limit: 1 });
  return chunks[0]?.output ?? null;
}

async function* frames(job: EndpointJob, call: DialectCall): AsyncIterable<string> {
  let finished = false;
  let count = 0;
  for await (const { data } of call.operations.stream(
    'follow_stream',
    { id: job.id },
    call.context,
  )) {
    count += 1;
    const frame = frameOf((data as { output: unknown }).output);
    finished ||= frame.includes('data: [DONE]');
    yield frame;
  }
  const input = { endpointId: job.endpointId, id: job.id };
  const ended = await callUnchecked(call, getEndpointJob, input);
  if (ended.status === 'completed') {
    if (count === 0) yield frameOf(whole(ended.output) ?? null);
  } else yield `data: ${JSON.stringify(errorShape(failed(ended)))}\n\n`;
  if (!finished) yield 'data: [DONE]\n\n';
}

/** Workers that support OpenAI yield complete frames. Others yield the object of a frame. */
function frameOf(output: unknown): string {
  if (typeof output !== 'string') return `data: ${JSON.stringify(output)}\n\n`;
  if (!output.startsWith('data:')) return `data: ${output}\n\n`;
  return output.endsWith('\n\n') ? output : `${output.trimEnd()}\n\n`;
}

function failed(job: EndpointJob): AppError {
  const code = job.status === 'cancelled' ? 'wrongState' : 'workerFailed';
  return new AppError(code, job.error?.message ?? `The job ended ${statusOf(job)}.`, {
    hint: `Job ${job.id}.`,
  });
}

/** The error format that OpenAI clients read. */
export function openaiError(error: unknown): DialectResponse {
  return { status: errorKind(errorBody(error).code).http, body: errorShape(error) };
}

function errorShape(error: unknown): unknown {
  const translated = inTerms(error, { fields: 'job', calls: 'routes' });
  const { code, message, hint } = errorBody(translated);
  const type = errorKind(code).http < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { message: hint ? `${message} ${hint}` : message, type, code, param: null } };
}
