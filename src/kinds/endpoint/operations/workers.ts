// Operations of the worker plane (scope `worker`): what RunPod's worker protocol is made of; and looking at workers.
import { z } from 'zod';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { isoTime } from '../../../runtime/clock.ts';
import { workerEndpoint, type Desk } from '../desk.ts';
import type { JobInput } from '../intake.ts';
import type { EndpointRow } from '../store.ts';
import type { Worker } from '../worker.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { ofEndpoint } from './reach.ts';

const workerId = z.string().regex(/^[\w.:-]{1,120}$/, 'not a worker id');
const waitMsMax = 85_000;
const batchMax = 1000;
const place = { endpointId: z.string().max(100), workerId };
const body = z.instanceof(Buffer) as z.ZodType<Buffer>;
const report = z.object({ ...place, jobId, body });

export function workerOperations(desk: Desk): Operation[] {
  return [
    takeJobs(desk),
    pollStops(desk),
    finishJob(desk),
    streamChunk(desk),
    ping(desk),
    list(desk),
  ];
}

function takeJobs(desk: Desk): Operation {
  return defineOperation({
    name: 'take_jobs',
    title: 'Take jobs',
    description:
      'For workers: waits for up to `count` jobs of the endpoint and takes them. Empty when none came in time. A taken job is alive as long as pings name it.',
    effect: 'write',
    scope: 'worker',
    reach: ofEndpoint,
    input: z.object({
      ...place,
      count: z.number().int().min(1).max(batchMax).default(1),
      waitMs: z.number().int().min(0).max(waitMsMax).default(25_000),
      running: z
        .array(jobId)
        .max(batchMax)
        .optional()
        .describe('All it runs now: others it was given never reached it and go back'),
      idle: z.boolean().optional().describe('It runs nothing now: what it held is lost'),
    }),
    output: z.object({ jobs: z.array(z.looseObject({ id: z.string(), input: z.unknown() })) }),
    run: async (input, { caller, signal }) => {
      const endpoint = await workerEndpoint(desk, input.endpointId, caller);
      const worker = await desk.hub.join(endpoint, input.workerId);
      const { count: limit, waitMs } = input;
      // Whoever asks for work is well: one that was not has ended, and came again under its name.
      worker.unhealthy = undefined;
      if (input.running) await desk.hub.reconcile(worker, new Set(input.running));
      else if (input.idle) await desk.hub.idle(worker);
      const jobs = await desk.hub.handout.take({ endpoint, worker, limit, waitMs, signal });
      return {
        jobs: jobs.map((job) => {
          const { input: value, webhook, s3Config } = job.input as JobInput;
          return {
            id: job.id,
            // Always there, also when it is empty: a worker refuses a job without it.
            input: value === undefined ? {} : value,
            ...(webhook === undefined ? {} : { webhook }),
            ...(s3Config === undefined ? {} : { s3Config }),
          };
        }),
      };
    },
  });
}

function pollStops(desk: Desk): Operation {
  return defineOperation({
    name: 'poll_stops',
    title: 'Poll stops',
    description:
      'For workers: waits until jobs this worker runs must stop, and answers their ids. Empty when none must within the time.',
    effect: 'read',
    scope: 'worker',
    reach: ofEndpoint,
    input: z.object({ ...place, waitMs: z.number().int().min(0).max(waitMsMax).default(25_000) }),
    output: z.object({ jobIds: z.array(z.string()) }),
    run: async (input, { caller, signal }) => {
      const endpoint = await workerEndpoint(desk, input.endpointId, caller);
      const worker = await desk.hub.join(endpoint, input.workerId);
      return { jobIds: await desk.hub.stops(worker, input.waitMs, signal) };
    },
  });
}

function finishJob(desk: Desk): Operation {
  return defineOperation({
    name: 'finish_endpoint_job',
    title: 'Finish endpoint job',
    description:
      'For workers: posts a result, an error or progress of a job it holds. Late and doubled posts are taken and change nothing (applied false).',
    effect: 'write',
    idempotent: true,
    scope: 'worker',
    reach: ofEndpoint,
    input: report,
    output: z.object({ applied: z.boolean() }),
    run: (input, { caller }) => post(desk, 'done', input, caller),
  });
}

function streamChunk(desk: Desk): Operation {
  return defineOperation({
    name: 'add_stream_chunk',
    title: 'Add stream chunk',
    description:
      'For workers: adds one chunk to the stream of a job it holds. With its number, counted from 1, a chunk that is sent again is added once.',
    effect: 'write',
    scope: 'worker',
    reach: ofEndpoint,
    input: report.extend({ n: z.number().int().min(1).optional() }),
    output: z.object({ applied: z.boolean() }),
    run: (input, { caller }) => post(desk, 'chunk', input, caller),
  });
}

/** What a worker posts about a job it holds; what came too late changes nothing. */
async function post(
  desk: Desk,
  way: 'done' | 'chunk',
  input: z.infer<typeof report> & { n?: number | undefined },
  caller: Caller | undefined,
): Promise<{ applied: boolean }> {
  const { endpointId, workerId, jobId, body, n } = input;
  const endpoint = await workerEndpoint(desk, endpointId, caller);
  const worker = await desk.hub.join(endpoint, workerId);
  return { applied: await desk.reports[way]({ endpoint, worker, jobId, body, n }) };
}

function ping(desk: Desk): Operation {
  return defineOperation({
    name: 'ping_worker',
    title: 'Ping worker',
    description:
      'For workers: a sign of life with the ids of the jobs it runs; those it does not name are lost after the lease.',
    effect: 'write',
    idempotent: true,
    scope: 'worker',
    reach: ofEndpoint,
    input: z.object({
      ...place,
      jobIds: z.array(jobId).max(10_000).default([]),
      unhealthy: z.string().max(500).optional().describe('Why the worker cannot work'),
    }),
    output: z.object({}),
    run: async (input, { caller }) => {
      const endpoint = await workerEndpoint(desk, input.endpointId, caller);
      const worker = await desk.hub.join(endpoint, input.workerId);
      if (input.unhealthy !== undefined) {
        worker.unhealthy = input.unhealthy;
        desk.logs.note(endpoint.id, worker.id, `worker is unhealthy: ${input.unhealthy}`);
      }
      await desk.hub.ping(worker, endpoint, input.jobIds);
      return {};
    },
  });
}

const workerView = z.looseObject({
  id: z.string(),
  status: z.string(),
  origin: z.string(),
  version: z.number(),
  isStale: z.boolean(),
  jobs: z.array(z.string()),
  startedAt: z.string(),
});

function list(desk: Desk): Operation {
  return defineOperation({
    name: 'list_workers',
    title: 'List workers',
    description:
      'Lists the workers of an endpoint: status, version, jobs in hand, how long they live, and the last ones that ended with the reason. Use it when jobs stay queued; read_worker_log shows what a worker printed. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
    input: z.object({ endpointId: z.string().max(100) }),
    output: z.object({
      version: z.number(),
      workers: z.array(workerView),
      ended: z.array(z.looseObject({ id: z.string(), reason: z.string().nullable() })),
    }),
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/workers' },
    cli: {
      words: ['endpoint', 'workers'],
      args: ['endpointId'],
      table: {
        rows: 'workers',
        columns: ['id', 'status', 'origin', 'version', 'jobs', 'startedAt'],
      },
    },
    run: async (input, { caller }) => {
      const endpoint = await desk.endpoints.get(input.endpointId, caller);
      const ended = await desk.store.endedWorkers(endpoint.id, 10);
      return {
        version: endpoint.version,
        workers: desk.hub.of(endpoint.id).map((worker) => viewWorker(desk, endpoint, worker)),
        ended: ended.map((row) => ({
          id: row.id,
          reason: row.reason,
          exitCode: row.exitCode,
          exitSignal: row.exitSignal,
          endedAt: isoTime(row.endedAt!),
        })),
      };
    },
  });
}

function viewWorker(desk: Desk, endpoint: EndpointRow, worker: Worker) {
  return {
    id: worker.id,
    status: desk.health.statusOf(worker, endpoint),
    origin: worker.origin,
    version: worker.version,
    isStale: worker.version !== endpoint.version,
    jobs: [...worker.running.keys()],
    uptimeSeconds: Math.round((desk.clock.now() - worker.createdAt) / 1000),
    startedAt: isoTime(worker.createdAt),
    ...(worker.unhealthy === undefined ? {} : { unhealthy: worker.unhealthy }),
  };
}
