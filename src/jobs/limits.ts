// Applies the limits of an API key (kinds, queues, subject) to jobs.
import { unknownJob } from './dependencies.ts';
import type { Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import type { Caller, JobLimits } from '../operation.ts';

/** Whether the job is within the limits of the key, regardless of its owner. */
export async function isWithinLimits(
  jobs: Pick<Jobs, 'findKind'>,
  job: Job,
  caller: Caller,
): Promise<boolean> {
  const { kinds, queues, subject } = caller;
  if (kinds && !kinds.includes(job.kind)) return false;
  if (queues && !queues.includes(job.queue)) return false;
  if (subject === undefined) return true;
  return (await jobs.findKind(job.kind)?.belongsTo?.(job, subject)) ?? false;
}

export function jobLimits(jobs: Jobs): JobLimits {
  return {
    require: async (id, caller) => {
      const job = await jobs.ledger.find(id);
      if (!job || !(await isWithinLimits(jobs, job, caller))) throw unknownJob(id);
    },
  };
}

/** The list filter for a key. If the subject has no queue of its own, each job must still be checked. */
export function limitFilter(
  jobs: Jobs,
  { kinds, queues, subject }: Caller,
  wanted?: readonly string[],
): Pick<JobFilter, 'kinds' | 'queues'> {
  const named = wanted && wanted.length > 0 ? wanted : undefined;
  const bound = subject === undefined ? undefined : boundKinds(jobs, subject);
  const queue = subject === undefined ? undefined : queueOf(jobs, subject);
  const allKinds = common(common(named, kinds), bound);
  const allQueues = common(queues, queue === undefined ? undefined : [queue]);
  return {
    ...(allKinds ? { kinds: orNone(allKinds) } : {}),
    ...(allQueues ? { queues: orNone(allQueues) } : {}),
  };
}

/** The kinds whose jobs can belong to the subject. */
export function boundKinds(jobs: Pick<Jobs, 'listKinds' | 'withParts'>, subject: string): string[] {
  const kinds = jobs.listKinds().filter((kind) => subject.startsWith(`${kind.subject}:`));
  return jobs.withParts(kinds.map(({ name }) => name));
}

/** The queue of all jobs that belong to the subject, if they share one. */
export function queueOf(jobs: Pick<Jobs, 'listKinds'>, subject: string): string | undefined {
  const kind = jobs.listKinds().find((one) => subject.startsWith(`${one.subject}:`));
  return kind?.queueOf?.(subject);
}

function common(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
): readonly string[] | undefined {
  if (!one || !other) return one ?? other;
  return one.filter((name) => other.includes(name));
}

/** An empty list would disable the filter. */
const orNone = (names: readonly string[]): readonly string[] =>
  names.length > 0 ? names : ['\u0000none'];
