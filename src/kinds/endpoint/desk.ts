// What the operations of this kind share: the parts, and the questions asked in most of them.
import type { EventFeed } from '../../jobs/events.ts';
import { type Jobs } from '../../jobs/jobs.ts';
import { unknownJob } from '../../jobs/dependencies.ts';
import type { Job } from '../../jobs/job.ts';
import { isOwn, mayRead } from '../../jobs/view.ts';
import type { Waiting } from '../../jobs/wait.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Batches } from './batch/batches.ts';
import type { Endpoints } from './endpoints.ts';
import type { HealthDesk } from './health.ts';
import type { WorkerHub } from './hub.ts';
import type { Intake } from './intake.ts';
import type { WorkerLogs } from './logs.ts';
import type { Reports } from './reports.ts';
import type { Results } from './results.ts';
import type { EndpointRow, EndpointStore } from './store.ts';
import type { Streams } from './stream/store.ts';

export interface Desk {
  jobs: Jobs;
  feed: EventFeed;
  waiting: Waiting;
  clock: Clock;
  store: EndpointStore;
  endpoints: Endpoints;
  hub: WorkerHub;
  intake: Intake;
  reports: Reports;
  results: Results;
  streams: Streams;
  logs: WorkerLogs;
  health: HealthDesk;
  batches: Batches;
  home: string;
  /** The remote of this endpoint knows which jobs are to be stopped. */
  remoteSettled(endpointId: string): Promise<void>;
  /** What webhooks of its jobs are signed with. */
  secretOf(endpointId: string): string;
}

/** A job of this endpoint that the caller may see; of another endpoint it looks unknown. */
export async function endpointJob(
  desk: Desk,
  wish: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  return checked(desk, await desk.jobs.ledger.find(wish.id), wish, caller);
}

/** The same without its input, for status answers. */
export async function statusJob(
  desk: Desk,
  wish: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  return checked(desk, await desk.store.statusJob(wish.id), wish, caller);
}

async function checked(
  { jobs }: Desk,
  job: Job | undefined,
  wish: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  if (!job || job.kind !== 'endpoint' || job.queue !== wish.endpointId) throw unknownJob(wish.id);
  if (!(await mayRead(jobs, job, caller))) throw unknownJob(wish.id);
  return job;
}

export async function ownEndpointJob(
  desk: Desk,
  wish: { endpointId: string; id: string },
  caller: Caller | undefined,
): Promise<Job> {
  const job = await endpointJob(desk, wish, caller);
  if (!(await isOwn(desk.jobs, job, caller))) throw unknownJob(wish.id);
  return job;
}

/** The endpoint for a worker. A key bound to its id is not enough: another owner may have created it again. */
export function workerEndpoint(
  desk: Desk,
  endpointId: string,
  caller: Caller | undefined,
): Promise<EndpointRow> {
  return desk.endpoints.get(endpointId, caller);
}
