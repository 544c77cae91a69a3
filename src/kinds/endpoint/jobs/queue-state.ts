// The waiting jobs of an endpoint as the scaling rule sees them. Reading them does not claim them.
import { queueKey } from '../../../jobs/intents.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { isLowPriority } from './submitter.ts';
import type { EndpointRow } from '../store/endpoints.ts';

/** The job that runs next. */
interface NextJob {
  id: string;
  /** It was assigned to a worker before. */
  again: boolean;
  low: boolean;
  since: number;
}

interface QueueState {
  /** Undefined if no job waits. */
  head: NextJob | undefined;
  queued: number;
  running: number;
}

export async function readQueueState(
  { jobs, clock }: { jobs: Jobs; clock: Clock },
  endpoint: EndpointRow,
): Promise<QueueState> {
  const counts = await jobs.store.counters(`queue:endpoint:${endpoint.id}`);
  const queued = counts.queued ?? 0;
  const head = queued > 0 ? await readNextJob(jobs, clock, endpoint) : undefined;
  return { head, queued, running: counts.running ?? 0 };
}

/** Reads the first waiting job without claiming it. */
async function readNextJob(
  jobs: Jobs,
  clock: Clock,
  endpoint: EndpointRow,
): Promise<NextJob | undefined> {
  let head: NextJob | undefined;
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
