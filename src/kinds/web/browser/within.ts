// Limits the time of browser work that may never settle.
import type { Clock } from '../../../runtime/clock.ts';

export async function within<T>(
  { clock, limitMs, late }: { clock: Clock; limitMs: number; late(): Error },
  work: () => Promise<T>,
): Promise<T> {
  const done = new AbortController();
  const limit = clock.sleep(limitMs, done.signal).then((): never => {
    throw late();
  });
  limit.catch(() => {});
  const result = work();
  result.catch(() => {});
  try {
    return await Promise.race([result, limit]);
  } finally {
    done.abort();
  }
}
