// A connected worker: the jobs it holds, the jobs it must stop, and its last contact.
import type {
  EndpointRow,
  WorkerName,
  WorkerOrigin,
  WorkerRow,
  WorkerState,
} from '../store/endpoints.ts';

export interface Worker {
  id: string;
  endpointId: string;
  origin: WorkerOrigin;
  version: number;
  state: WorkerState;
  createdAt: number;
  readyAt: number | null;
  seenAt: number | null;
  /** When it last became idle. */
  idleSince: number;
  /** Job → attempt, as assigned. */
  running: Map<string, string>;
  acknowledged: Set<string>;
  /** Job → when the stop was requested. Removed when the worker no longer names the job. */
  stopping: Map<string, number>;
  unsentStops: Set<string>;
  wakeStopPoll: () => void;
  /** Reported by the worker: a failed fitness check. */
  unhealthy: string | undefined;
  /** Open polls for work, and when the last one started or ended. */
  openPolls: number;
  askedAt: number;
  savedAt: number;
}

/** Polls of a stopping worker return quickly, but not as fast as it can send them. */
export const drainPauseMs = 200;

export const keyOf = ({ endpointId, id }: WorkerName): string => `${endpointId}/${id}`;

/** Ready, without a job and without an open poll. */
export function isSilent({ state, running, stopping, openPolls }: Worker): boolean {
  return state === 'ready' && running.size === 0 && stopping.size === 0 && openPolls === 0;
}

export function workerOf(row: WorkerRow): Worker {
  return {
    id: row.id,
    endpointId: row.endpointId,
    origin: row.origin,
    version: row.version,
    state: row.state,
    createdAt: row.createdAt,
    readyAt: row.readyAt,
    seenAt: row.seenAt,
    idleSince: row.readyAt ?? row.createdAt,
    running: new Map(),
    acknowledged: new Set(),
    stopping: new Map(),
    unsentStops: new Set(),
    wakeStopPoll: () => {},
    unhealthy: undefined,
    openPolls: 0,
    askedAt: row.seenAt ?? row.createdAt,
    savedAt: row.seenAt ?? 0,
  };
}

export function externalRow(endpoint: EndpointRow, id: string, now: number): WorkerRow {
  return {
    id,
    endpointId: endpoint.id,
    node: null,
    version: endpoint.version,
    origin: 'external',
    pid: null,
    processStart: null,
    keyId: null,
    state: 'ready',
    reason: null,
    createdAt: now,
    readyAt: now,
    seenAt: now,
    endedAt: null,
    exitCode: null,
    exitSignal: null,
  };
}
