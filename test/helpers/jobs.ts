// A job core on its own store, with a kind whose attempts the test ends manually.
import type { TestContext } from 'node:test';
import { EventFeed } from '../../src/jobs/events.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import type { Kind, Outcome, Run } from '../../src/jobs/kind.ts';
import { ManualClock, type Clock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import type { Store } from '../../src/store/store.ts';
import { JobWaiter } from '../../src/jobs/wait.ts';
import { stores, type StoreFactory } from './stores.ts';

export interface Core {
  store: Store;
  jobs: Jobs;
  feed: EventFeed;
  waiting: JobWaiter;
  clock: Clock;
}

export const toyKind: Kind = {
  name: 'toy',
  dispatched: true,
  retryable: true,
  cancellable: true,
  capacity: () => 100,
};

export async function createCore(
  t: TestContext,
  options: { factory?: StoreFactory; clock?: Clock; kinds?: Kind[] } = {},
): Promise<Core> {
  const store = await (options.factory ?? stores[0]!).open(t);
  const clock = options.clock ?? new ManualClock();
  const jobs = new Jobs(store, clock);
  for (const kind of options.kinds ?? [toyKind]) jobs.addKind(kind);
  const feed = new EventFeed(store, silentLog);
  t.after(() => feed.close());
  return { store, jobs, feed, clock, waiting: new JobWaiter(jobs, feed, clock) };
}

/** A kind that runs in this process. Each attempt waits until the test decides its outcome. */
export function manualKind(options: Partial<Kind> = {}): Kind & { runs: Map<string, ManualRun> } {
  const runs = new Map<string, ManualRun>();
  return {
    ...toyKind,
    ...options,
    runs,
    run: (run) =>
      new Promise<Outcome>((end) => {
        runs.set(run.job.attemptId, { run, end });
      }),
  };
}

export interface ManualRun {
  run: Run;
  end(outcome: Outcome): void;
}
