// Waiting for a job: until it has ended, or until a condition on it holds.
import type { Job } from '../../../jobs/job.ts';
import type { EndpointDeps } from '../deps.ts';

/** Returns the job when it has ended, or undefined on timeout. The job continues either way. */
export async function waitFor(
  deps: EndpointDeps,
  id: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<Job | undefined> {
  const stop = new AbortController();
  const off = deps.clock.after(waitMs, () => stop.abort());
  const leave = () => stop.abort();
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await deps.waiting.waitForEnd(id, stop.signal);
  } finally {
    off();
    signal.removeEventListener('abort', leave);
  }
}

/** Checks again after every change of the job, until there is a result or the wait times out. */
export async function changes<T>(
  deps: EndpointDeps,
  jobIdToWatch: string,
  look: () => Promise<T | undefined>,
  limit: { endsAt: number; signal: AbortSignal },
): Promise<T> {
  let wake = new AbortController();
  const off = await deps.feed.subscribe(() => wake.abort('changed'), jobIdToWatch);
  try {
    for (;;) {
      const present = new AbortController();
      wake = present;
      const found = await look();
      if (found !== undefined || limit.signal.aborted) return found as T;
      const leftMs = Math.min(limit.endsAt - deps.clock.now(), 60_000);
      await deps.clock.sleep(leftMs, AbortSignal.any([present.signal, limit.signal]));
    }
  } finally {
    off();
  }
}
