// What waits at an endpoint, as the rule of scaling sees it: looked at without being taken.
import { queueKey } from '../../jobs/intents.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import { isLowPriority } from './intake.ts';
import type { EndpointRow } from './store.ts';

/** The job that is next. */
export interface Head {
  id: string;
  /** It was handed out before. */
  again: boolean;
  low: boolean;
  since: number;
}

export interface Demand {
  /** Undefined: nothing waits. */
  head: Head | undefined;
  queued: number;
  running: number;
}

export async function demandOf(
  { jobs, clock }: { jobs: Jobs; clock: Clock },
  endpoint: EndpointRow,
): Promise<Demand> {
  const counts = await jobs.store.counters(`queue:endpoint:${endpoint.id}`);
  const queued = counts.queued ?? 0;
  const head = queued > 0 ? await headOf(jobs, clock, endpoint) : undefined;
  return { head, queued, running: counts.running ?? 0 };
}

/** Looks at the first waiting job without taking it. */
async function headOf(jobs: Jobs, clock: Clock, endpoint: EndpointRow): Promise<Head | undefined> {
  let head: Head | undefined;
  await jobs.claim({
    queues: [{ name: queueKey('endpoint', endpoint.id) }],
    limit: 1,
    lookahead: 0,
    holder: 'nobody',
    node: null,
    leaseMs: 0,
    accept: (job) => {
      head = {
        id: job.id,
        again: job.attempt > 1,
        low: isLowPriority(job),
        since: Math.min(job.runAt, clock.now()),
      };
      return false;
    },
  });
  return head;
}
