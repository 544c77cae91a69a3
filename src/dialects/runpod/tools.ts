// RunPod's MCP job tools under their exact names and parameters (server 4.0.0), with what it lacks: annotations, output
// schemas, and the diagnosis of a waiting job from the queue itself.
import { z } from 'zod';
import type { DialectAnswer, DialectCall, DialectTool } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { cancelJob, healthOf, purgeQueue, retryJob, submission } from './data-plane.ts';
import { workerSummary } from './endpoint-shape.ts';
import { inTerms, toolTerms } from './terms.ts';
import { isOver, jobBody, statusOf, waitLimits, type EndpointJob } from './words.ts';

const id = z.string().regex(/^[a-zA-Z0-9_-]+$/, 'Invalid ID format');
export const endpointId = id.describe('ID of the Serverless endpoint');
const jobId = id.describe('ID of the job');
const wait = z
  .number()
  .int()
  .min(waitLimits.min)
  .max(waitLimits.max)
  .optional()
  .describe('Milliseconds to wait for the end');
/** Most MCP clients give a call up after a minute. */
const waitMsMax = 50_000;

const runFields = {
  endpointId,
  input: z.looseObject({}).describe('Input for the handler'),
  webhook: z.url().optional().describe('Called with the job when it is over'),
  policy: z
    .strictObject({
      executionTimeout: z.number().int().optional().describe('Milliseconds it may run'),
      lowPriority: z.boolean().optional(),
      ttl: z.number().int().optional().describe('Milliseconds it may live from now'),
    })
    .optional(),
  s3Config: z
    .strictObject({
      accessId: z.string(),
      accessSecret: z.string(),
      bucketName: z.string(),
      endpointUrl: z.string(),
    })
    .optional(),
};

const job = z.looseObject({ id: z.string(), status: z.string() });
const place = z.strictObject({ endpointId, jobId });

export const jobTools: DialectTool[] = [
  {
    name: 'run-endpoint',
    title: 'Run endpoint (async)',
    description:
      'Start a job on a Serverless endpoint and return its id at once. Use get-job-status to follow it, runsync-endpoint to wait for the result instead.',
    effect: 'write',
    openWorld: true,
    input: z.strictObject(runFields),
    output: job,
    run: (input, call) => answered(run(input, call)),
  },
  {
    name: 'runsync-endpoint',
    title: 'Run endpoint (sync)',
    description:
      'Start a job and wait for its result. When the wait ends first, the reply has the id and a status that is not final: the job goes on, follow it with get-job-status.',
    effect: 'write',
    openWorld: true,
    input: z.strictObject({ ...runFields, wait }),
    output: job,
    run: (input, call) => answered(runsync(input, call)),
  },
  {
    name: 'get-job-status',
    title: 'Get job status',
    description:
      'Check the status of an asynchronous Serverless job; the output is there once it is complete. Statuses: IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED, TIMED_OUT. With wait it returns as soon as the job is over. A queued job comes with workerHealth and a hint why it waits.',
    effect: 'read',
    openWorld: true,
    input: z.strictObject({ endpointId, jobId, wait }),
    output: job,
    run: (input, call) => answered(status(input, call)),
  },
  {
    name: 'stream-job',
    title: 'Stream job output',
    description:
      'Collect what a streaming handler yields until the job is over, 50 s have passed or it is much to read; call again for the rest. Every chunk is handed out once.',
    effect: 'read',
    openWorld: true,
    input: place,
    output: z.looseObject({ status: z.string(), stream: z.array(z.unknown()) }),
    run: (input, call) => answered(stream(input, call)),
  },
  {
    name: 'cancel-job',
    title: 'Cancel job',
    description:
      'Cancel a queued or running Serverless job. Check with get-job-status that it is CANCELLED.',
    effect: 'write',
    idempotent: true,
    openWorld: true,
    input: place,
    output: job,
    run: (input, call) => answered(cancelJob(placeOf(input), call)),
  },
  {
    name: 'retry-job',
    title: 'Retry job',
    description:
      'Retry a failed or timed-out Serverless job. Only works for jobs with FAILED or TIMED_OUT status. The previous output is removed and the job is requeued under the same id.',
    effect: 'write',
    openWorld: true,
    input: place,
    output: job,
    run: (input, call) => answered(retryJob(placeOf(input), call)),
  },
  {
    name: 'endpoint-health',
    title: 'Endpoint health',
    description: 'Counts of jobs and workers of a Serverless endpoint.',
    effect: 'read',
    openWorld: true,
    input: z.strictObject({ endpointId }),
    output: z.looseObject({ jobs: z.looseObject({}), workers: z.looseObject({}) }),
    run: (input, call) => answered(healthOf((input as Input).endpointId, call)),
  },
  {
    name: 'purge-endpoint-queue',
    title: 'Purge endpoint queue',
    description: 'Remove every pending job of an endpoint; running jobs go on.',
    effect: 'write',
    idempotent: true,
    openWorld: true,
    input: z.strictObject({ endpointId }),
    output: z.looseObject({ removed: z.number(), status: z.string() }),
    run: (input, call) => answered(purgeQueue((input as Input).endpointId, call)),
  },
];

/** Errors are answers a model can act on, in RunPod's shape. */
export async function answered(
  value: Promise<unknown>,
  fields: 'job' | 'endpoint' = 'job',
): Promise<DialectAnswer> {
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

function placeOf(input: unknown): { endpointId: unknown; id: unknown } {
  const { endpointId: endpoint, jobId: id } = input as Input;
  return { endpointId: endpoint, id };
}

async function run(input: unknown, { operations, context }: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, ...body } = input as Input;
  const made = await operations.call<EndpointJob>(
    'submit_endpoint_job',
    { endpointId: endpoint, ...submission(body) },
    context,
  );
  return { id: made.id, status: statusOf(made) };
}

async function runsync(input: unknown, { operations, context }: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, wait: asked, ...body } = input as Input;
  const waitMs = Math.min((asked as number | undefined) ?? waitMsMax, waitMsMax);
  const made = await operations.call<EndpointJob>(
    'submit_endpoint_job',
    { endpointId: endpoint, ...submission(body), waitMs },
    context,
  );
  return isOver(statusOf(made)) ? jobBody(made) : { id: made.id, status: statusOf(made) };
}

async function status(input: unknown, call: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, jobId: job, wait: asked } = input as Input;
  const waitMs = asked === undefined ? undefined : Math.min(asked as number, waitMsMax);
  const found = await call.operations.call<EndpointJob>(
    'get_endpoint_job',
    { endpointId: endpoint, id: job, ...(waitMs === undefined ? {} : { waitMs }) },
    call.context,
  );
  const body = jobBody(found);
  const late = waitMs !== undefined && !isOver(body.status as string);
  return {
    ...body,
    ...(body.status === 'IN_QUEUE' ? await queueDiagnosis(found, call) : {}),
    ...(late
      ? { pollingTimedOut: true, note: 'Still not over; the job goes on. Call again with wait.' }
      : {}),
  };
}

/** What RunPod's server guesses from worker states, the queue here knows. */
async function queueDiagnosis(job: EndpointJob, call: DialectCall): Promise<Input> {
  const { workers } = await call.operations.call<{ workers: { status: string }[] }>(
    'list_workers',
    { endpointId: job.endpointId },
    call.context,
  );
  const view = await call.operations.call<{ diagnosis?: string }>(
    'get_job',
    { id: job.id },
    call.context,
  );
  return {
    workerHealth: workerSummary(workers),
    ...(view.diagnosis ? { hint: toolTerms(view.diagnosis) } : {}),
  };
}

/** What a model takes in at once; the rest comes with the next call. */
const streamBytesMax = 24_000;
/** Each call waits up to ten seconds; five of them stay below what clients allow. */
const streamCallsMax = 5;

async function stream(input: unknown, { operations, context }: DialectCall): Promise<unknown> {
  const { endpointId: endpoint, jobId: job } = input as Input;
  const chunks: unknown[] = [];
  let status = 'IN_QUEUE';
  let bytesLeft = streamBytesMax;
  for (let i = 0; i < streamCallsMax && bytesLeft > 0; i++) {
    const part = await operations.call<Drained>(
      'drain_stream',
      { endpointId: endpoint, id: job, waitMs: 10_000, bytesMax: bytesLeft },
      context,
    );
    chunks.push(...part.chunks.map((output) => ({ output })));
    bytesLeft -= part.bytes;
    status = statusOf(part);
    if (part.more) break;
    if (isOver(status)) return { status, stream: chunks };
  }
  return {
    status,
    stream: chunks,
    pollingTimedOut: true,
    note: 'That is not all; call stream-job again for the chunks that follow.',
  };
}

interface Drained {
  status: string;
  stage: string | null;
  chunks: unknown[];
  error: unknown;
  bytes: number;
  more: boolean;
}
