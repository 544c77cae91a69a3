// Waiting for the end of an attempt. A child of this server tells its end itself; an adopted one (started by a
// server that is gone) is looked at now and then: its record, else whether its wrapper still lives.
import type { Clock } from '../../../runtime/clock.ts';
import type { ExitRecord, LaunchFolder } from './folder.ts';
import { isAlive, type Identity } from './identity.ts';

/** The wrapper writes its record and ends: seen dead without one, it gets this many more looks. */
const lateLooks = 3;

export interface WatchOptions {
  clock: Clock;
  pollMs: number;
  signal: AbortSignal;
}

/** The record; `lost` when the wrapper is gone without one; undefined when the signal aborted first. */
export async function adoptedEnd(
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
