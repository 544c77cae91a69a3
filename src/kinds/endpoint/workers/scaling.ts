// How many workers an endpoint should have: a pure function of waiting jobs, running jobs and the scaling rule.
// Scaling down depends on idle time instead, so that a short pause between jobs never stops a worker.
import type { EndpointSpec } from '../spec.ts';

export interface Load {
  /** Jobs that may cause a start. Low-priority jobs do not count. */
  queued: number;
  running: number;
  /** How long the first of them has waited. */
  oldestWaitMs: number;
  /** Workers that accept jobs or will soon. */
  workers: number;
  starting: number;
  /** Time since the last worker was added. */
  sinceStartMs: number;
}

export function workersWanted(spec: EndpointSpec, load: Load): number {
  const { minWorkers, maxWorkers } = spec;
  const within = (n: number) => Math.max(minWorkers, Math.min(maxWorkers, n));
  const { scaling } = spec;
  if (scaling.type === 'REQUEST_COUNT') {
    const jobs = load.queued + load.running;
    // Busy workers stay. The number shrinks only when workers become idle.
    return within(Math.max(load.workers, Math.ceil(jobs / scaling.requestCount)));
  }
  if (load.queued === 0) return within(load.workers);
  if (load.workers === 0) return within(1);
  const delayMs = scaling.queueDelay * 1000;
  // One at a time, because the starting worker may be sufficient.
  const due = load.oldestWaitMs > delayMs && load.starting === 0 && load.sinceStartMs >= delayMs;
  return within(load.workers + (due ? 1 : 0));
}

/** Delay before the next start after this many consecutive failures. */
export function startDelayMs(failures: number): number {
  if (failures === 0) return 0;
  return Math.min(500 * 2 ** (failures - 1), maxStartDelayMs);
}
const maxStartDelayMs = 60_000;
