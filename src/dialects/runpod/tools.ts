// RunPod's MCP job tools with their exact names and parameters (server 4.0.0), plus annotations, output schemas, and
// the reason why a job waits.
import { getJob } from '../../contracts/jobs.ts';
import {
  drainStream,
  getEndpointJob,
  submitEndpointJob,
} from '../../kinds/endpoint/contracts/jobs.ts';
import { listWorkers } from '../../kinds/endpoint/contracts/workers.ts';
import { z } from 'zod';
import {
  callUnchecked,
  type DialectResult,
  type DialectCall,
  type DialectTool,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { bound } from '../../runtime/response-budget.ts';
import { cancelJob, emptyQueue, healthOf, retryJob, submission } from './data-plane.ts';
import { workerSummary } from './endpoint-shape.ts';
import { inTerms, toolTerms } from './terms.ts';
import { isOver, jobBody, statusOf, waitLimits, type EndpointJob } from './translate.ts';

const id = z.string().regex(/^[a-zA-Z0-9_-]+$/, 'Invalid ID format');
export const endpointId = id.describe('Id of the Serverless endpoint, from list-endpoints');
const jobId = id.describe('Id of the job, from run-endpoint');
/** Waits outside the limits are clamped, never rejected. */
const wait = z
  .number()
  .optional()
  .describe(
    'Milliseconds to wait for the end of the job, 1,000 to 300,000; above 50,000 only with a progress token',
  );
/** Most MCP clients abort a call after a minute. */
const maxWaitMs = 50_000;

const runFields = {
  endpointId,
  input: z.looseObject({}).describe('JSON object that the handler receives as input'),
  webhook: z.url().optional().describe('URL that receives the job by POST when it has ended'),
  policy: z
    .strictObject({
      executionTimeout: z.number().int().optional().describe('Maximum running time in ms'),
      lowPriority: z.boolean().optional().describe('Run only when no other job waits'),
      ttl: z.number().int().optional().describe('Maximum lifetime in ms, waiting and running'),
    })
    .optional()
    .describe('Limits of this job'),
  s3Config: z
    .strictObject({
      accessId: z.string().describe('Access key id'),
      accessSecret: z.string().describe('Secret access key'),
      bucketName: z.string().describe('Bucket'),
      endpointUrl: z.string().describe('URL of the storage'),
    })
    .optional()
    .describe('Object storage that the handler may use'),
};

const job = z.looseObject({ id: z.string(), status: z.string() });
const place = z.strictObject({ endpointId, jobId });

export const jobTools: DialectTool[] = [
  {
    name: 'run-endpoint',
    title: 'Run endpoint (async)',
    description:
      'Start a job on a Serverless endpoint and return its id immediately; use it instead of curl in a shell. ' +
      'Use it for jobs that take longer than a minute; to wait for the result in the same call use runsync-endpoint. Follow the job with get-job-status. Stop it with cancel-job. Every call starts a new job, which may cost money on a remote endpoint.',
    effect: 'write',
    openWorld: true,
    input: z.strictObject(runFields),
    output: job,
    run: (input, call) => toToolResult(run(input, call)),
  },
  {
    name: 'runsync-endpoint',
    title: 'Run endpoint (sync)',
    description:
      'Start a job on a Serverless endpoint and wait for its result; use it instead of curl in a shell. ' +
      'Use it for short jobs; for long ones use run-endpoint. Waits at most 50 s. If the job takes longer, it continues, and the response contains its id and current status: continue with get-job-status. Do not call runsync-endpoint again, because that would start a second job.',
    effect: 'write',
    openWorld: true,
    input: z.strictObject({ ...runFields, wait }),
    output: job,
    run: (input, call) => toToolResult(runsync(input, call)),
  },
  {
    name: 'get-job-status',
    title: 'Get job status',
    description:
      'Return the status of a Serverless job, and its output once it is complete; with wait, return as soon as it has ended. ' +
      'Use it after run-endpoint. Statuses: IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED, TIMED_OUT. For a queued job the response contains workerHealth and a hint why it waits. For streaming handlers use stream-job. An unknown job is an error. Changes nothing.',
    effect: 'read',
    openWorld: true,
    input: z.strictObject({ endpointId, jobId, wait }),
    output: job,
    run: (input, call) => toToolResult(status(input, call)),
  },
  {
    name: 'stream-job',
    title: 'Stream job output',
    description:
      'Collect what a streaming handler has yielded, until the job has ended or 50 s have passed. ' +
      'Each chunk is returned only once, so keep it. Call the tool again for the rest. Use it only for handlers that yield; for a single result use get-job-status, which returns the whole output at the end.',
    effect: 'destroy',
    scope: 'read',
    openWorld: true,
    pages: true,
    input: place,
    output: z.looseObject({ status: z.string(), stream: z.array(z.unknown()) }),
    run: (input, call) => toToolResult(stream(input, call)),
  },
  {
    name: 'cancel-job',
    title: 'Cancel job',
    description:
      'Cancel a queued or running Serverless job; its work so far is lost. ' +
      'Use it for jobs you no longer need; to empty a whole queue use purge-endpoint-queue. An ended job does not change. Check with get-job-status that it is CANCELLED. To run it again use retry-job.',
    effect: 'destroy',
    idempotent: true,
    openWorld: true,
    input: place,
    output: job,
    run: (input, call) => toToolResult(cancelJob(placeOf(input), call)),
  },
  {
    name: 'retry-job',
    title: 'Retry job',
    description:
      'Run a FAILED or TIMED_OUT Serverless job again under the same id; its previous output is removed. ' +
      'Use it once the cause is fixed. Side effects of the handler happen again. Jobs with another status are rejected: start a new one with run-endpoint. Follow it with get-job-status.',
    effect: 'destroy',
    openWorld: true,
    input: place,
    output: job,
    run: (input, call) => toToolResult(retryJob(placeOf(input), call)),
  },
  {
    name: 'endpoint-health',
    title: 'Endpoint health',
    description:
      'Return how many jobs and workers a Serverless endpoint has, by state. ' +
      'Use it to see why jobs wait; for one job use get-job-status, for each worker use list-endpoint-workers. Changes nothing.',
    effect: 'read',
    openWorld: true,
    input: z.strictObject({ endpointId }),
    output: z.looseObject({ jobs: z.looseObject({}), workers: z.looseObject({}) }),
    run: (input, call) => toToolResult(healthOf((input as Input).endpointId, call)),
  },
  {
    name: 'purge-endpoint-queue',
    title: 'Purge endpoint queue',
    description:
      'Remove every job that waits in the queue of an endpoint; they never run. ' +
      'Running jobs continue. Use it to drop a backlog; to stop one job use cancel-job. Removed jobs cannot be restored. Returns how many were removed.',
    effect: 'destroy',
    idempotent: true,
    openWorld: true,
    input: z.strictObject({ endpointId }),
    output: z.looseObject({ removed: z.number(), status: z.string() }),
    run: (input, call) => toToolResult(emptyQueue((input as Input).endpointId, call)),
  },
];

/** Returns errors in RunPod's format, as results that a model can act on. */
export async function toToolResult(
  value: Promise<unknown>,
  fields: 'job' | 'endpoint' = 'job',
): Promise<DialectResult> {
  try {
    const structured = await value;
    return { structured, text: JSON.stringify(structured, null, 2) };
  } catch (cause) {
    const error = inTerms(cause, { fields, calls: 'tools' });
    if (!(error instanceof AppError)) throw error;
    const body = { error: error.message, detail: error.code, hint: error.hint ?? '' };
    return { structured: body, text: JSON.stringify(body, null, 2), isError: true };
  }
}

type Input = Record<string, unknown>;

function allowedWait(asked: number, context: DialectCall['context']): number {
  const { min, max } = waitLimits;
  return Math.min(Math.max(asked, min), context.progress ? max : maxWaitMs);
}

function placeOf(input: unknown): { endpointId: unknown; id: unknown } {
  const { endpointId: endpoint, jobId: id } = input as Input;
  return { endpointId: endpoint, id };
}

async function run(input: unknown, call: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, ...body } = input as Input;
  const made = await callUnchecked(call, submitEndpointJob, {
    endpointId: endpoint,
    ...submission(body),
  });
  return { id: made.id, status: statusOf(made) };
}

async function runsync(input: unknown, call: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, wait: asked, ...body } = input as Input;
  const waitMs = allowedWait((asked as number | undefined) ?? maxWaitMs, call.context);
  const made = await callUnchecked(call, submitEndpointJob, {
    endpointId: endpoint,
    ...submission(body),
    waitMs,
  });
  return isOver(statusOf(made)) ? jobBody(made) : { id: made.id, status: statusOf(made) };
}

async function status(input: unknown, call: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, jobId: job, wait: asked } = input as Input;
  const waitMs = asked === undefined ? undefined : allowedWait(asked as number, call.context);
  const found = await callUnchecked(call, getEndpointJob, {
    endpointId: endpoint,
    id: job,
    ...(waitMs === undefined ? {} : { waitMs }),
  });
  const body = jobBody(found);
  const late = waitMs !== undefined && !isOver(body.status as string);
  return {
    ...body,
    ...(body.status === 'IN_QUEUE' ? await queueDiagnosis(found, call) : {}),
    ...(late
      ? {
          pollingTimedOut: true,
          note: 'The job has not ended yet and continues to run. Call again with wait.',
        }
      : {}),
  };
}

/** RunPod's server guesses this from worker states. Here the queue reports it. */
async function queueDiagnosis(job: EndpointJob, call: DialectCall): Promise<Input> {
  const { workers } = await callUnchecked(call, listWorkers, { endpointId: job.endpointId });
  const view = await callUnchecked(call, getJob, { id: job.id });
  return {
    workerHealth: workerSummary(workers),
    ...(typeof view.diagnosis === 'string' ? { hint: toolTerms(view.diagnosis) } : {}),
  };
}

/** The maximum size for a model to read in one call. The next call returns the rest. */
const maxStreamBytes = 24_000;
/** Each call waits up to ten seconds. Five calls stay below the timeout of clients. */
const maxStreamCalls = 5;

async function stream(input: unknown, call: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, jobId: job } = input as Input;
  const chunks: unknown[] = [];
  let status = 'IN_QUEUE';
  let bytesLeft = maxStreamBytes;
  for (let i = 0; i < maxStreamCalls && bytesLeft > 0; i++) {
    const part = await callUnchecked(call, drainStream, {
      endpointId: endpoint,
      id: job,
      waitMs: 10_000,
      maxBytes: bytesLeft,
      strict: i > 0,
    });
    chunks.push(...part.chunks.map((output) => shownChunk(output)));
    bytesLeft -= part.bytes;
    status = statusOf(part);
    if (part.more) break;
    if (isOver(status)) return { status, stream: chunks };
  }
  return {
    status,
    stream: chunks,
    pollingTimedOut: true,
    note: 'There are more chunks. Call stream-job again to get them.',
  };
}

/** A chunk larger than a response: returns its beginning, and where to read all of it. */
function shownChunk(output: unknown): Input {
  const { value, omitted } = bound(output, maxStreamBytes);
  if (!omitted) return { output };
  const reason = `${omitted.reason}; GET /api/jobs/{id}/stream returns all of it`;
  return { output: value, omitted: { ...omitted, reason } };
}
