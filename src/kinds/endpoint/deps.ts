// The dependencies of all operations of this kind, and the lookups that most of them need.
import type { EventFeed } from '../../jobs/events.ts';
import { type Jobs } from '../../jobs/jobs.ts';
import { unknownJob } from '../../jobs/dependencies.ts';
import type { Job } from '../../jobs/job.ts';
import { isOwn, mayRead } from '../../jobs/view.ts';
import type { JobWaiter } from '../../jobs/wait.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Batches } from './batch/batches.ts';
import type { Endpoints } from './endpoints.ts';
import type { HealthService } from './health.ts';
import type { WorkerRegistry } from './workers/registry.ts';
import type { JobSubmitter } from './jobs/submitter.ts';
import type { WorkerLogs } from './workers/logs.ts';
import type { Reports } from './jobs/reports.ts';
import type { Results } from './jobs/results.ts';
import type { EndpointRow, EndpointStore } from './store/endpoints.ts';
import type { Streams } from './store/streams.ts';

export interface EndpointDeps {
  jobs: Jobs;
  feed: EventFeed;
  waiting: JobWaiter;
  clock: Clock;
  store: EndpointStore;
  endpoints: Endpoints;
  registry: WorkerRegistry;
  submitter: JobSubmitter;
  reports: Reports;
  results: Results;
  streams: Streams;
  logs: WorkerLogs;
  health: HealthService;
  batches: Batches;
  home: string;
  /** Resolves when the remote of this endpoint has received all cancels. */
  waitForRemoteCancels(endpointId: string): Promise<void>;
  /** Returns the key that signs webhooks of its jobs. */
  secretOf(endpointId: string): string;
}

/** Returns a job of this endpoint that the caller may see. A job of another endpoint counts as unknown. */
export async function endpointJob(
  deps: EndpointDeps,
  ref: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  return checkVisible(deps, await deps.jobs.ledger.find(ref.id), ref, caller);
}

/** The same without the job input, for status requests. */
export async function statusJob(
  deps: EndpointDeps,
  ref: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  return checkVisible(deps, await deps.store.statusJob(ref.id), ref, caller);
}

async function checkVisible(
  { jobs }: EndpointDeps,
  job: Job | undefined,
  ref: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  if (!job || job.kind !== 'endpoint' || job.queue !== ref.endpointId) throw unknownJob(ref.id);
  if (!(await mayRead(jobs, job, caller))) throw unknownJob(ref.id);
  return job;
}

export async function ownEndpointJob(
  deps: EndpointDeps,
  ref: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  const job = await endpointJob(deps, ref, caller);
  if (!(await isOwn(deps.jobs, job, caller))) throw unknownJob(ref.id);
  return job;
}

/**
 * Returns the endpoint of a worker. A key bound to its id is not sufficient, because another owner may have
 * recreated it.
 */
export function workerEndpoint(
  deps: EndpointDeps,
  endpointId: string,
  caller: Caller | undefined,
): Promise<EndpointRow> {
  return deps.endpoints.get(endpointId, caller);
}
