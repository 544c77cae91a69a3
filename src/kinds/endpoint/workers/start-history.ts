// History of worker starts per endpoint: consecutive failures delay the next start and are reported to waiting
// callers.
import type { Clock } from '../../../runtime/clock.ts';
import type { Log } from '../../../runtime/log.ts';
import type { StartTrouble } from '../health.ts';
import type { WorkerLogs } from './logs.ts';
import { startDelayMs } from './scaling.ts';
import type { Worker } from './worker.ts';

interface StartRecord {
  failures: number;
  lastEnd?: string;
  lastWorkerId?: string;
  nextStartAt: number;
  startedAt: number;
}

const tailLines = 15;
const maxTailChars = 300;

export class StartHistory {
  private readonly deps: { clock: Clock; log: Log; logs: WorkerLogs };
  private readonly states = new Map<string, StartRecord>();

  constructor(deps: { clock: Clock; log: Log; logs: WorkerLogs }) {
    this.deps = deps;
  }

  of(endpointId: string): StartRecord {
    let state = this.states.get(endpointId);
    if (!state) {
      state = { failures: 0, nextStartAt: 0, startedAt: 0 };
      this.states.set(endpointId, state);
    }
    return state;
  }

  /** A job has completed, so workers of this endpoint work and earlier failures no longer count. */
  markWorking(endpointId: string): void {
    const state = this.states.get(endpointId);
    if (state) state.failures = 0;
  }

  failed(worker: Worker, why: string): void {
    const state = this.of(worker.endpointId);
    state.failures += 1;
    state.lastEnd = why;
    state.lastWorkerId = worker.id;
    state.nextStartAt = this.deps.clock.now() + startDelayMs(state.failures);
    this.deps.log.warn('a worker failed', { endpoint: worker.endpointId, worker: worker.id, why });
  }

  trouble(endpointId: string, reason: string | undefined): StartTrouble {
    const { failures, lastEnd, lastWorkerId, nextStartAt } = this.of(endpointId);
    const logTail = failures > 0 && lastWorkerId ? this.tail(endpointId, lastWorkerId) : [];
    return {
      failures,
      ...(reason === undefined ? {} : { reason }),
      ...(lastEnd === undefined ? {} : { lastEnd }),
      ...(lastWorkerId === undefined ? {} : { lastWorkerId }),
      ...(failures > 0 ? { nextStartAt, logTail } : {}),
    };
  }

  private tail(endpointId: string, workerId: string): string[] {
    const query = { source: 'container', tail: tailLines } as const;
    return this.deps.logs
      .read(endpointId, workerId, query)
      .map(({ line }) => line.slice(0, maxTailChars));
  }
}
