// Translates jobs and errors to RunPod's statuses and formats.
import { byName } from '../../runtime/by-name.ts';
import type { EndpointJobView } from '../../kinds/endpoint/contracts/jobs.ts';
import { AppError, errorBody, errorKind } from '../../errors.ts';
import type { DialectRequest, DialectResponse } from '../../dialect.ts';
import { parseJson, utf8Text } from '../../runtime/json.ts';
import { inTerms } from './terms.ts';

type RunpodStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

export type EndpointJob = EndpointJobView;

const statusWords: Record<string, RunpodStatus> = byName({
  queued: 'IN_QUEUE',
  running: 'IN_PROGRESS',
  input_required: 'IN_PROGRESS',
  completed: 'COMPLETED',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  timed_out: 'TIMED_OUT',
});

/** Stages of a job that is being sent to a remote or waits there: it is not running yet. */
const waitingStages: ReadonlySet<unknown> = new Set(['remote', 'remoteQueue']);

export function statusOf(job: {
  status: string;
  stage?: string | null;
  error?: unknown;
}): RunpodStatus {
  if (job.status === 'running' && waitingStages.has(job.stage)) return 'IN_QUEUE';
  const { code } = (job.error ?? {}) as { code?: string };
  // RunPod reports a job that exceeded its execution timeout as FAILED. TIMED_OUT is a job that never ran or outlived
  // its ttl.
  if (job.status === 'timed_out' && code === 'executionTimeout') return 'FAILED';
  return statusWords[job.status] ?? 'IN_PROGRESS';
}

export const isOver = (status: string): boolean =>
  status !== 'IN_QUEUE' && status !== 'IN_PROGRESS';

/** The job object of /status, /runsync and webhooks. */
export function jobBody(job: EndpointJob): Record<string, unknown> {
  const status = statusOf(job);
  if (status === 'IN_QUEUE') return { id: job.id, status, ...retries(job) };
  const error = errorText(job, status);
  return {
    ...(job.delayMs === undefined ? {} : { delayTime: job.delayMs }),
    ...(error === undefined ? {} : { error }),
    ...(job.executionMs === undefined ? {} : { executionTime: job.executionMs }),
    id: job.id,
    ...(job.input === undefined ? {} : { input: job.input }),
    ...(job.output === undefined ? {} : { output: job.output }),
    ...retries(job),
    status,
    ...(job.webhook === undefined || job.input === undefined ? {} : { webhook: job.webhook }),
    ...(job.workerId === undefined ? {} : { workerId: job.workerId }),
  };
}

const retries = (job: EndpointJob) => (job.retries > 0 ? { retries: job.retries } : {});

function errorText({ error, retries: n }: EndpointJob, status: RunpodStatus): string | undefined {
  if (!error || status === 'COMPLETED' || status === 'CANCELLED') return undefined;
  if (error.code === 'executionTimeout') return 'executionTimeout exceeded';
  if (error.code === 'lost') return `job timed out after ${n} retries`;
  return error.message;
}

/** Errors of the data plane: RunPod's `{error}`, plus a code and a hint. */
export function errorResponse(error: unknown): DialectResponse {
  const { code, message, hint } = errorBody(inTerms(error, { fields: 'job', calls: 'routes' }));
  return {
    status: code === 'wrongState' || code === 'idempotencyConflict' ? 400 : errorKind(code).http,
    body: { error: message, code, ...(hint ? { hint } : {}) },
  };
}

/** Errors of the control plane: problem details. */
export function problemResponse(error: unknown): DialectResponse {
  const translated = inTerms(error, { fields: 'endpoint', calls: 'routes' });
  const { code, message, hint, data } = errorBody(translated);
  const status = errorKind(code).http;
  const issues = data?.issues as { path: string; message: string }[] | undefined;
  return {
    status,
    headers: { 'content-type': 'application/problem+json' },
    body: {
      title: titles[status] ?? 'Error',
      status,
      detail: message,
      ...(hint ? { hint } : {}),
      errors: issues?.map((issue) => `${issue.path || '$'}: ${issue.message}`) ?? [],
    },
  };
}

const titles: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** An empty body is accepted if no field is required: RunPod's clients send one with a JSON content type. */
export function bodyOf(request: DialectRequest): unknown {
  if (request.body.length === 0) return {};
  const text = utf8Text(request.body);
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('invalidInput', `The body is not JSON: ${(error as Error).message}`, {
      hint: 'Send one JSON object.',
    });
  }
}

/** The same, but requires an object. */
export function objectOf(value: unknown, what = 'The body'): Record<string, unknown> {
  if (value !== null && typeof value === 'object' && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new AppError('invalidInput', `${what} is not a JSON object.`);
}

export const waitLimits = { min: 1000, max: 300_000 };

/** Parses `?wait=` within RunPod's limits, and rejects it with RunPod's message. */
export function waitOf(request: DialectRequest, fallback: number): number {
  const text = request.query.get('wait');
  if (text === null) return fallback;
  const wait = Number(text);
  if (Number.isInteger(wait) && wait >= waitLimits.min && wait <= waitLimits.max) return wait;
  throw new AppError(
    'invalidInput',
    `wait is invalid; must be between ${waitLimits.min} and ${waitLimits.max}`,
  );
}
