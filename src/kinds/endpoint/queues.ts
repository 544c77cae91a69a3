// Whether a queue is paused or limited by an operator: asked for on every claim, so remembered for a moment.
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';

const cacheMs = 1000;

export interface QueueState {
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
            ...(row.concurrencyMax === null ? {} : { limit: row.concurrencyMax }),
          },
        ]),
      );
    }
    return states.get(name) ?? { paused: false };
  };
}
