// Waits for the end of an adopted attempt. Children of this server report their exit; a wrapper that an earlier server
// started is polled: first its exit record, then whether its process is alive.
import type { Clock } from '../../../runtime/clock.ts';
import type { ExitRecord, LaunchFolder } from './folder.ts';
import { isAlive, type Identity } from '../../../runtime/process-identity.ts';

/** The wrapper writes its record and exits. If it is dead without a record, this many more checks follow. */
const lateLooks = 3;

interface WatchOptions {
  clock: Clock;
  pollMs: number;
  signal: AbortSignal;
}

/** Returns the record; `lost` if the wrapper exited without one; undefined if the signal aborted first. */
export async function waitForAdopted(
  folder: LaunchFolder,
  wrapper: Identity,
  options: WatchOptions,
): Promise<ExitRecord | 'lost' | undefined> {
  let missed = 0;
  for (;;) {
    const record = folder.readExit();
    if (record) return record;
    if (options.signal.aborted) return undefined;
    missed = isAlive(wrapper) ? 0 : missed + 1;
    if (missed > lateLooks) return 'lost';
    await options.clock.sleep(missed ? 20 : options.pollMs, options.signal);
  }
}
