// How many workers an endpoint should have: a pure function of what waits, what runs and the endpoint's rule. Going down
// is not decided here but by idle time, so that a short pause between jobs never stops a worker.
import type { EndpointSpec } from './spec.ts';

export interface Load {
  /** Jobs that may cause a start; those of low priority do not count. */
  queued: number;
  running: number;
  /** How long the first of them has waited. */
  oldestWaitMs: number;
  /** Workers that take work or will soon. */
  workers: number;
  starting: number;
  /** Since the last worker was added. */
  sinceStartMs: number;
}

export function workersWanted(spec: EndpointSpec, load: Load): number {
  const { workersMin, workersMax } = spec;
  const within = (n: number) => Math.max(workersMin, Math.min(workersMax, n));
  const { scaling } = spec;
  if (scaling.type === 'REQUEST_COUNT') {
    const jobs = load.queued + load.running;
    // What runs keeps its worker; fewer are wanted only once they are idle.
    return within(Math.max(load.workers, Math.ceil(jobs / scaling.requestCount)));
  }
  if (load.queued === 0) return within(load.workers);
  if (load.workers === 0) return within(1);
  const delayMs = scaling.queueDelay * 1000;
  // One at a time: the one that is starting may already be enough.
  const due = load.oldestWaitMs > delayMs && load.starting === 0 && load.sinceStartMs >= delayMs;
  return within(load.workers + (due ? 1 : 0));
}

/** Wait before the next start after so many failures in a row. */
export function startDelayMs(failures: number): number {
  if (failures === 0) return 0;
  return Math.min(500 * 2 ** (failures - 1), startDelayMsMax);
}
const startDelayMsMax = 60_000;
