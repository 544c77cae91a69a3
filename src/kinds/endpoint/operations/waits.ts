// Waiting for a job: until it is over, or until something about it answers a question.
import type { Job } from '../../../jobs/job.ts';
import type { Desk } from '../desk.ts';

/** The longest wait RunPod takes. */
export const waitMsMax = 300_000;

/** The job once it is over; undefined when the time was up first. The job goes on either way. */
export async function waitFor(
  desk: Desk,
  id: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<Job | undefined> {
  const stop = new AbortController();
  const off = desk.clock.after(waitMs, () => stop.abort());
  const leave = () => stop.abort();
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await desk.waiting.ended(id, stop.signal);
  } finally {
    off();
    signal.removeEventListener('abort', leave);
  }
}

/** Looks again after every change of the job, until the answer is there or the time is up. */
export async function changes<T>(
  desk: Desk,
  jobIdToWatch: string,
  look: () => Promise<T | undefined>,
  limit: { endsAt: number; signal: AbortSignal },
): Promise<T> {
  let wake = new AbortController();
  const off = await desk.feed.subscribe(() => wake.abort('changed'), jobIdToWatch);
  try {
    for (;;) {
      const present = new AbortController();
      wake = present;
      const found = await look();
      if (found !== undefined || limit.signal.aborted) return found as T;
      const leftMs = Math.min(limit.endsAt - desk.clock.now(), 60_000);
      await desk.clock.sleep(leftMs, AbortSignal.any([present.signal, limit.signal]));
    }
  } finally {
    off();
  }
}
