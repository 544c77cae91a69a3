// What the pages of one browser and the shared connection send to each other.
import type { JobEvent, JobLine } from '../types.ts';

/** One change on the event stream of all jobs. */
export type Change =
  | { cursor: string; event: JobEvent & { jobId: string }; job: JobLine }
  | { cursor: string; removed: string }
  | { cursor: string; reset: true };

/**
 * `live`: changes arrive. `connecting`: not yet. `reconnecting`: the connection was lost. `paused`: no tab is visible.
 * `ended`: the session is not valid any more.
 */
export type State = 'connecting' | 'live' | 'reconnecting' | 'paused' | 'ended';

export type FromPage =
  | { type: 'hello'; base: string; isVisible: boolean }
  | { type: 'visible'; isVisible: boolean }
  | { type: 'retry' }
  | { type: 'bye' };

export type ToPage =
  | { type: 'state'; state: State; retryAt?: number }
  /** All changes from now on will be sent. */
  | { type: 'cursor' }
  | { type: 'changes'; changes: Change[] };
