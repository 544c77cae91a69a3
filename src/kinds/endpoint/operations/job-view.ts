// Endpoint jobs as operations return them to dialects.
import { isFinal, type Job } from '../../../jobs/job.ts';
import { isoTime } from '../../../runtime/clock.ts';
import type { EndpointJobView } from '../contracts/jobs.ts';
import type { EndpointDeps } from '../deps.ts';
import type { JobInput } from '../jobs/submitter.ts';
import { delayMs } from '../jobs/reports.ts';

export function viewEndpointJob(
  deps: EndpointDeps,
  job: Job,
  includeInput = false,
): EndpointJobView {
  const body = (job.input ?? {}) as Partial<JobInput>;
  const output = isFinal(job.status) ? deps.results.of(job) : job.facts.progressOutput;
  return {
    ...listed(job),
    ...(output === undefined || output === null ? {} : { output }),
    ...(includeInput ? { input: body.input } : {}),
    ...(body.webhook === undefined ? {} : { webhook: body.webhook }),
  };
}

/** Without input and output. */
export function listed(job: Job): EndpointJobView {
  const delay = delayMs(job);
  const started = job.startedAt !== null;
  return {
    id: job.id,
    endpointId: job.queue,
    status: job.status,
    ...(job.stage === null ? {} : { stage: job.stage }),
    retries: job.attempt - 1,
    createdAt: isoTime(job.createdAt),
    ...(job.error ? { error: { ...job.error } } : {}),
    ...(delay === undefined ? {} : { delayMs: delay }),
    ...(started && job.finishedAt !== null
      ? { executionMs: Math.max(job.finishedAt - job.startedAt!, 0) }
      : {}),
    ...(job.holder === null ? {} : { workerId: job.holder }),
    ...(started ? { startedAt: isoTime(job.startedAt!) } : {}),
    ...(job.finishedAt === null ? {} : { finishedAt: isoTime(job.finishedAt) }),
  };
}
