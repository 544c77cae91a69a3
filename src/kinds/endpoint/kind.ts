// Endpoint jobs for the core: handed out by the worker protocol, so without `run`; what get_job shows of them.
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Kind } from '../../jobs/kind.ts';
import { sameJob } from '../../jobs/submission.ts';
import type { Desk } from './desk.ts';
import type { JobInput } from './intake.ts';
import { delayMs } from './reports.ts';
import type { ResultFile } from './results.ts';
import { holderOf } from './remote/store.ts';
import type { EndpointRow } from './store.ts';
import { forgetSteps } from './stream/store.ts';

const summaryCharsMax = 120;

export function endpointKind(desk: Desk): Kind {
  return {
    name: 'endpoint',
    subject: 'endpoint',
    allows: 'submit jobs to endpoints, and make endpoints whose workers come from outside',
    belongsTo: (job, subject) => subject === `endpoint:${job.queue}`,
    queueOf: (subject) => subject.slice('endpoint:'.length),
    dispatched: true,
    retryable: true,
    cancellable: true,
    capacity: () => 0,
    view: (job) => view(desk, job),
    summary: (job) => {
      const input = JSON.stringify((job.input as JobInput).input) ?? '';
      return `${job.queue} ${input.slice(0, summaryCharsMax)}`;
    },
    output: (job, attempt) => output(desk, job, attempt),
    rerun: async (job, { caller }) => {
      const endpoint = await desk.endpoints.get(job.queue, caller);
      await desk.intake.admit(endpoint, 1);
      return (await desk.jobs.submit(sameJob(job))).job;
    },
    forget: async (jobIds) => {
      const attempts: string[] = [];
      for (const job of await desk.jobs.ledger.findMany(jobIds)) {
        attempts.push(job.attemptId);
        for (const attempt of await desk.jobs.ledger.attempts(job.id))
          attempts.push(attempt.attemptId);
      }
      desk.results.forget(attempts);
      await desk.jobs.store.commit(forgetSteps(jobIds));
    },
  };
}

/** Workers print into logs of their own; a job has the lines that its worker gave to it. */
async function output(desk: Desk, job: Job, attempt: number) {
  const holder =
    attempt === job.attempt
      ? job.holder
      : (await desk.jobs.ledger.attempts(job.id)).find((one) => one.attempt === attempt)?.holder;
  const bytes = holder ? desk.logs.printed(job.queue, holder, job.id) : Buffer.alloc(0);
  if (bytes.length > 0 || !holder) return { bytes };
  const omitted = `what its worker ${holder} printed for no job in particular: read_worker_log`;
  return { bytes, omitted };
}

async function view(desk: Desk, job: Job): Promise<Record<string, unknown>> {
  const delay = delayMs(job);
  const { chunks, progressOutput } = job.facts;
  const file = job.facts.resultFile as ResultFile | undefined;
  const endpoint = isFinal(job.status) ? undefined : await desk.endpoints.find(job.queue);
  const diagnosis = endpoint && (await diagnosisOf(desk, endpoint, job));
  return {
    endpointId: job.queue,
    ...(job.holder === null ? {} : { workerId: job.holder }),
    ...(delay === undefined ? {} : { delayMs: delay }),
    ...(job.status === 'running' && progressOutput !== undefined ? { progressOutput } : {}),
    ...(chunks === undefined ? {} : { chunks }),
    ...(file ? { resultFile: { ...file, hint: 'Read it in pieces with read_job_result.' } } : {}),
    ...(diagnosis === undefined ? {} : { diagnosis }),
    ...(job.status === 'queued' && !endpoint ? { diagnosis: 'Its endpoint was deleted.' } : {}),
  };
}

/** Why it waits; of one that runs, why nothing is heard of it. */
async function diagnosisOf(desk: Desk, endpoint: EndpointRow, job: Job) {
  if (job.status === 'queued') return desk.health.diagnosis(endpoint, job);
  const isThere = job.holder === holderOf(endpoint.id);
  return isThere ? desk.health.diagnosisThere(endpoint, job) : undefined;
}
