// Writes that cannot be made for now (a full disk): nothing of them happened, and they are tried again until they can.
import type { Clock } from '../../../runtime/clock.ts';

const waitMsMin = 200;
const waitMsMax = 5000;

/** The store cannot take it now, and may later. */
export const isPassing = (error: unknown): boolean =>
  (error as { code?: string }).code === 'unavailable';

export async function patient(
  write: () => Promise<void>,
  needs: { clock: Clock; signal: AbortSignal; onDelayed?(error: unknown): void },
): Promise<void> {
  for (let waitMs = waitMsMin; ; waitMs = Math.min(waitMs * 2, waitMsMax)) {
    try {
      return await write();
    } catch (error) {
      if (!isPassing(error) || needs.signal.aborted) throw error;
      needs.onDelayed?.(error);
      await needs.clock.sleep(waitMs, needs.signal);
    }
  }
}
