// Retries writes that the store rejects temporarily, for example because the disk is full. A rejected write has no effect.
import type { Clock } from '../../../../runtime/clock.ts';

const minWaitMs = 200;
const maxWaitMs = 5000;

/** The store is temporarily unavailable. */
export const isUnavailable = (error: unknown): boolean =>
  (error as { code?: string }).code === 'unavailable';

export async function retryWhileUnavailable(
  write: () => Promise<void>,
  deps: { clock: Clock; signal: AbortSignal; onDelayed?(error: unknown): void },
): Promise<void> {
  for (let waitMs = minWaitMs; ; waitMs = Math.min(waitMs * 2, maxWaitMs)) {
    try {
      return await write();
    } catch (error) {
      if (!isUnavailable(error) || deps.signal.aborted) throw error;
      deps.onDelayed?.(error);
      await deps.clock.sleep(waitMs, deps.signal);
    }
  }
}
