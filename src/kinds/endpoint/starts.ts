// How the starts of an endpoint's workers went: a series of failed ones slows the next and is told to whoever waits.
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Trouble } from './health.ts';
import type { WorkerLogs } from './logs.ts';
import { startDelayMs } from './scaling.ts';
import type { Worker } from './worker.ts';

export interface Start {
  failures: number;
  lastEnd?: string;
  lastWorkerId?: string;
  nextStartAt: number;
  startedAt: number;
}

const tailLines = 15;
const tailCharsMax = 300;

export class Starts {
  private readonly needs: { clock: Clock; log: Log; logs: WorkerLogs };
  private readonly states = new Map<string, Start>();

  constructor(needs: { clock: Clock; log: Log; logs: WorkerLogs }) {
    this.needs = needs;
  }

  of(endpointId: string): Start {
    let state = this.states.get(endpointId);
    if (!state) {
      state = { failures: 0, nextStartAt: 0, startedAt: 0 };
      this.states.set(endpointId, state);
    }
    return state;
  }

  /** A job was done: whatever failed before, workers of this endpoint work. */
  proven(endpointId: string): void {
    const state = this.states.get(endpointId);
    if (state) state.failures = 0;
  }

  failed(worker: Worker, why: string): void {
    const state = this.of(worker.endpointId);
    state.failures += 1;
    state.lastEnd = why;
    state.lastWorkerId = worker.id;
    state.nextStartAt = this.needs.clock.now() + startDelayMs(state.failures);
    this.needs.log.warn('a worker died', { endpoint: worker.endpointId, worker: worker.id, why });
  }

  trouble(endpointId: string, reason: string | undefined): Trouble {
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
    return this.needs.logs
      .read(endpointId, workerId, query)
      .map(({ line }) => line.slice(0, tailCharsMax));
  }
}
