// The dependencies that job operations share.
import type { Clock } from '../../runtime/clock.ts';
import type { EventFeed } from '../events.ts';
import type { Jobs } from '../jobs.ts';
import type { JobWaiter } from '../wait.ts';

export interface JobOperationsDeps {
  jobs: Jobs;
  feed: EventFeed;
  waiting: JobWaiter;
  clock: Clock;
  /** Longest wait within a call, below the 60 s after which most MCP clients time out. */
  maxWaitMs: number;
  /** How long a cancelled job may take to stop before it is abandoned. */
  cancelMsDefault: number;
}
