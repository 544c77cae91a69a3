// What the operations on jobs are made from, and the input they share.
import { z } from 'zod';
import { jobFields } from '../job-names.ts';
import type { Clock } from '../runtime/clock.ts';
import type { EventFeed } from './events.ts';
import { queueForm, queueFormWords } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { Waiting } from './wait.ts';

export interface JobOperationsNeeds {
  jobs: Jobs;
  feed: EventFeed;
  waiting: Waiting;
  clock: Clock;
  /** Longest a wait may hold a call: below the 60 s after which most MCP clients give up. */
  waitMsMax: number;
  /** How long a cancelled job may take to stop before it is given up. */
  cancelMsDefault: number;
}

export const queueName = z.string().regex(queueForm, queueFormWords);

/** An id, or what stands for one: a name, the beginning of an id, `@last` (jobs/references.ts). */
export const jobId = z
  .string()
  .min(1)
  .max(200)
  .register(jobFields, { names: 'job' })
  .describe('Job id (job_…)');
