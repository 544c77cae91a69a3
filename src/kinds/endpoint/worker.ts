// One worker as the server knows it while it lives: what it was given, what it must stop, when it was last heard.
import type { EndpointRow, WorkerName, WorkerOrigin, WorkerRow, WorkerState } from './store.ts';

export interface Worker {
  id: string;
  endpointId: string;
  origin: WorkerOrigin;
  version: number;
  state: WorkerState;
  createdAt: number;
  readyAt: number | null;
  seenAt: number | null;
  /** When it last began to have nothing to do. */
  idleSince: number;
  /** Job → attempt, as handed out. */
  running: Map<string, string>;
  acknowledged: Set<string>;
  /** Job → when it was to be told to stop; gone once the worker no longer names the job. */
  stopping: Map<string, number>;
  toTell: Set<string>;
  tell: () => void;
  /** Said by the worker itself: a failed fitness check. */
  unhealthy: string | undefined;
  savedAt: number;
}

export const keyOf = ({ endpointId, id }: WorkerName): string => `${endpointId}/${id}`;

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
    toTell: new Set(),
    tell: () => {},
    unhealthy: undefined,
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
