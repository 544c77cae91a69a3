// Whether an operator paused or limited a queue. Every claim needs this, so it is cached briefly.
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Clock } from '../../../runtime/clock.ts';

const cacheMs = 1000;

interface QueueState {
  paused: boolean;
  limit?: number;
}

export function queueStates(jobs: Jobs, clock: Clock): (name: string) => Promise<QueueState> {
  let states = new Map<string, QueueState>();
  let readAt = -Infinity;
  return async (name) => {
    const now = clock.now();
    if (now - readAt >= cacheMs) {
      readAt = now;
      const rows = await jobs.ledger.queues('endpoint');
      states = new Map(
        rows.map((row) => [
          row.name,
          {
            paused: row.paused,
            ...(row.maxConcurrency === null ? {} : { limit: row.maxConcurrency }),
          },
        ]),
      );
    }
    return states.get(name) ?? { paused: false };
  };
}
