// Endpoint jobs as a kind. The worker protocol assigns them, so there is no `run`.
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Kind } from '../../jobs/kind.ts';
import { copySubmission } from '../../jobs/submission.ts';
import type { EndpointDeps } from './deps.ts';
import type { JobInput } from './jobs/submitter.ts';
import { delayMs } from './jobs/reports.ts';
import type { ResultFile } from './jobs/results.ts';
import { holderOf } from './store/remote-jobs.ts';
import type { EndpointRow } from './store/endpoints.ts';
import { forgetSteps } from './store/streams.ts';

const maxSummaryChars = 120;
const nonFiniteNote =
  'The result contained NaN or Infinity, which JSON cannot represent. They were replaced with null.';

export function endpointKind(deps: EndpointDeps): Kind {
  return {
    name: 'endpoint',
    subject: 'endpoint',
    allows: 'submit jobs to endpoints, and create endpoints with external workers',
    belongsTo: (job, subject) => subject === `endpoint:${job.queue}`,
    queueOf: (subject) => subject.slice('endpoint:'.length),
    dispatched: true,
    retryable: true,
    cancellable: true,
    capacity: () => 0,
    view: (job) => view(deps, job),
    summary: (job) => {
      const input = JSON.stringify((job.input as JobInput).input) ?? '';
      return `${job.queue} ${input.slice(0, maxSummaryChars)}`;
    },
    webhookFacts: async (job) => {
      const { input, webhook } = job.input as JobInput;
      const output = isFinal(job.status) ? deps.results.of(job) : undefined;
      return { input, webhook, output, delayMs: delayMs(job) };
    },
    output: (job, attempt) => output(deps, job, attempt),
    rerun: async (job, { caller }) => {
      const endpoint = await deps.endpoints.get(job.queue, caller);
      await deps.submitter.admit(endpoint, 1);
      return (await deps.jobs.submit(copySubmission(job))).job;
    },
    forget: async (jobIds) => {
      const attempts: string[] = [];
      for (const job of await deps.jobs.ledger.findMany(jobIds)) {
        attempts.push(job.attemptId);
        for (const attempt of await deps.jobs.ledger.attempts(job.id))
          attempts.push(attempt.attemptId);
      }
      deps.results.forget(attempts);
      await deps.jobs.store.commit(forgetSteps(jobIds));
    },
  };
}

/** Workers have separate logs. The job output consists of the lines that its worker attributed to it. */
async function output(deps: EndpointDeps, job: Job, attempt: number) {
  const holder =
    attempt === job.attempt
      ? job.holder
      : (await deps.jobs.ledger.attempts(job.id)).find((one) => one.attempt === attempt)?.holder;
  const bytes = holder ? deps.logs.printed(job.queue, holder, job.id) : Buffer.alloc(0);
  if (bytes.length > 0 || !holder) return { bytes };
  const omitted = `lines of worker ${holder} that belong to no job: use read_worker_log`;
  return { bytes, omitted };
}

async function view(deps: EndpointDeps, job: Job): Promise<Record<string, unknown>> {
  const delay = delayMs(job);
  const { chunks, progressOutput } = job.facts;
  const file = job.facts.resultFile as ResultFile | undefined;
  const endpoint = isFinal(job.status) ? undefined : await deps.endpoints.find(job.queue);
  const diagnosis = endpoint && (await diagnosisOf(deps, endpoint, job));
  return {
    endpointId: job.queue,
    ...(job.holder === null ? {} : { workerId: job.holder }),
    ...(delay === undefined ? {} : { delayMs: delay }),
    ...(job.status === 'running' && progressOutput !== undefined ? { progressOutput } : {}),
    ...(chunks === undefined ? {} : { chunks }),
    ...(file ? { resultFile: { ...file, hint: 'Read it in pieces with read_job_result.' } } : {}),
    ...(job.facts.nonFinite === true ? { resultNote: nonFiniteNote } : {}),
    ...(diagnosis === undefined ? {} : { diagnosis }),
    ...(job.status === 'queued' && !endpoint
      ? { diagnosis: 'The endpoint of this job was deleted.' }
      : {}),
  };
}

/** Explains why a queued job waits, or why a job on a remote makes no progress. */
async function diagnosisOf(deps: EndpointDeps, endpoint: EndpointRow, job: Job) {
  if (job.status === 'queued') return deps.health.diagnosis(endpoint, job);
  const isThere = job.holder === holderOf(endpoint.id);
  return isThere ? deps.health.remoteDiagnosis(endpoint, job) : undefined;
}
