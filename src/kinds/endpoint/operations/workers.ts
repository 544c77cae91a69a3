// Operations of the worker plane (scope `worker`), which the RunPod worker protocol uses, and list_workers.
import type { z } from 'zod';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { isoTime } from '../../../runtime/clock.ts';
import * as contracts from '../contracts/workers.ts';
import { workerEndpoint, type EndpointDeps } from '../deps.ts';
import type { JobInput } from '../jobs/submitter.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import type { Worker } from '../workers/worker.ts';
import { ofEndpoint } from './reach.ts';

const holdMs = 25_000;
/** RunPod's package exits only after its open polls have returned, and container engines kill 10 s after SIGTERM. */
const externalHoldMs = 8000;

export function workerOperations(deps: EndpointDeps): Operation[] {
  return [
    takeJobs(deps),
    pollStops(deps),
    finishJob(deps),
    streamChunk(deps),
    ping(deps),
    list(deps),
  ];
}

function holdFor({ origin }: Worker): number {
  return origin === 'external' ? externalHoldMs : holdMs;
}

function takeJobs(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.takeJobs,
    title: 'Take jobs',
    description:
      'For workers: waits for up to `count` jobs of the endpoint and claims them. Empty on timeout. A claimed job keeps its lease while pings name it.',
    effect: 'write',
    scope: 'worker',
    reach: ofEndpoint,
    run: async (input, { caller, signal }) => {
      const endpoint = await workerEndpoint(deps, input.endpointId, caller);
      const worker = await deps.registry.join(endpoint, input.workerId);
      const { count: limit, waitMs = holdFor(worker) } = input;
      // A worker that polls for work is healthy: an unhealthy one has ended and restarted under the same name.
      worker.unhealthy = undefined;
      if (input.running) await deps.registry.reconcile(worker, new Set(input.running));
      if (input.idle) await deps.registry.reportIdle(worker);
      const jobs = await deps.registry.assigner.take({ endpoint, worker, limit, waitMs, signal });
      return {
        jobs: jobs.map((job) => {
          const { input: value, webhook, s3Config } = job.input as JobInput;
          return {
            id: job.id,
            attemptId: job.attemptId,
            // Always present, even when it is empty: a worker rejects a job without it.
            input: value === undefined ? {} : value,
            ...(webhook === undefined ? {} : { webhook }),
            ...(s3Config === undefined ? {} : { s3Config }),
          };
        }),
      };
    },
  });
}

function pollStops(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.pollStops,
    title: 'Poll stops',
    description:
      'For workers: waits until jobs of this worker must stop, and returns their ids. Empty on timeout.',
    effect: 'read',
    scope: 'worker',
    reach: ofEndpoint,
    run: async (input, { caller, signal }) => {
      const endpoint = await workerEndpoint(deps, input.endpointId, caller);
      const worker = await deps.registry.join(endpoint, input.workerId);
      const { waitMs = holdFor(worker) } = input;
      return { jobIds: await deps.registry.pollStops(worker, waitMs, signal) };
    },
  });
}

function finishJob(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.finishEndpointJob,
    title: 'Finish endpoint job',
    description:
      'For workers: posts a result, an error or progress of a job it holds. Late and duplicate posts are accepted and change nothing (applied is false).',
    effect: 'write',
    idempotent: true,
    scope: 'worker',
    reach: ofEndpoint,
    run: (input, { caller }) => post(deps, 'done', input, caller),
  });
}

function streamChunk(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.addStreamChunk,
    title: 'Add stream chunk',
    description:
      'For workers: adds one chunk to the stream of a job it holds. A chunk with a number, counted from 1, is added only once even if it is sent again.',
    effect: 'write',
    scope: 'worker',
    reach: ofEndpoint,
    run: (input, { caller }) => post(deps, 'chunk', input, caller),
  });
}

/** A worker's post about a job it holds. A late post changes nothing. */
async function post(
  deps: EndpointDeps,
  way: 'done' | 'chunk',
  input: z.infer<typeof contracts.report> & { n?: number | undefined },
  caller: Caller | undefined,
): Promise<{ applied: boolean }> {
  const { endpointId, workerId, ...about } = input;
  const endpoint = await workerEndpoint(deps, endpointId, caller);
  const worker = await deps.registry.join(endpoint, workerId);
  return { applied: await deps.reports[way]({ endpoint, worker, ...about }) };
}

function ping(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.pingWorker,
    title: 'Ping worker',
    description:
      'For workers: heartbeat with the ids of the jobs it runs. Other jobs are lost when their lease expires.',
    effect: 'write',
    idempotent: true,
    scope: 'worker',
    reach: ofEndpoint,
    run: async (input, { caller }) => {
      const endpoint = await workerEndpoint(deps, input.endpointId, caller);
      const worker = await deps.registry.join(endpoint, input.workerId);
      if (input.unhealthy !== undefined) {
        worker.unhealthy = input.unhealthy;
        deps.logs.note(endpoint.id, worker.id, `worker is unhealthy: ${input.unhealthy}`);
      }
      await deps.registry.ping(worker, endpoint, input.jobIds);
      return {};
    },
  });
}

const maxStarts = 100;

function list(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listWorkers,
    title: 'List workers',
    description:
      'Lists the workers of an endpoint: status, version, current jobs and age, and the workers that ended last with the reason. Use it when jobs stay queued. read_worker_log shows what a worker printed. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
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
      const endpoint = await deps.endpoints.get(input.endpointId, caller);
      const ended = await deps.store.endedWorkers(endpoint.id, 10);
      const starts = startsOf(await deps.store.startTimes(endpoint.id, maxStarts));
      return {
        version: endpoint.version,
        workers: deps.registry
          .ofEndpoint(endpoint.id)
          .map((worker) => viewWorker(deps, endpoint, worker)),
        ended: ended.map((row) => ({
          id: row.id,
          reason: row.reason,
          exitCode: row.exitCode,
          exitSignal: row.exitSignal,
          version: row.version,
          startedAt: isoTime(row.createdAt),
          ...startOf(row),
          endedAt: isoTime(row.endedAt!),
        })),
        ...(starts ? { starts } : {}),
      };
    },
  });
}

function viewWorker(deps: EndpointDeps, endpoint: EndpointRow, worker: Worker) {
  return {
    id: worker.id,
    status: deps.health.statusOf(worker, endpoint),
    origin: worker.origin,
    version: worker.version,
    isStale: worker.version !== endpoint.version,
    jobs: [...worker.running.keys()],
    uptimeSeconds: Math.round((deps.clock.now() - worker.createdAt) / 1000),
    startedAt: isoTime(worker.createdAt),
    ...(worker.origin === 'external' ? {} : startOf(worker)),
    ...(worker.unhealthy === undefined ? {} : { unhealthy: worker.unhealthy }),
  };
}

function startOf({ createdAt, readyAt }: { createdAt: number; readyAt: number | null }) {
  return readyAt === null ? {} : { startMs: Math.max(readyAt - createdAt, 0) };
}

function startsOf(times: readonly number[]): z.infer<typeof contracts.startsView> | undefined {
  if (times.length === 0) return undefined;
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.ceil(part * sorted.length) - 1]!;
  return { count: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95) };
}
