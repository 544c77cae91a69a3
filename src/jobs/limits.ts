// The limits of a key, held against jobs: its kinds, its queues, and what it is bound to.
import { unknownJob } from './dependencies.ts';
import type { Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { JobFilter } from './ledger.ts';
import type { Caller, JobLimits } from '../operation.ts';

/** Whether the key reaches this job, whoever owns it. */
export async function isWithin(
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
      if (!job || !(await isWithin(jobs, job, caller))) throw unknownJob(id);
    },
  };
}

/** The part of a list that the key reaches. Where a subject has no queue of its own, each job is still to be checked. */
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

/** The kinds whose jobs can belong to it. */
export function boundKinds(jobs: Pick<Jobs, 'listKinds' | 'withParts'>, subject: string): string[] {
  const kinds = jobs.listKinds().filter((kind) => subject.startsWith(`${kind.subject}:`));
  return jobs.withParts(kinds.map(({ name }) => name));
}

/** The queue of everything that belongs to it, where there is one. */
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

/** An empty list would mean no filter at all. */
const orNone = (names: readonly string[]): readonly string[] =>
  names.length > 0 ? names : ['\u0000none'];
