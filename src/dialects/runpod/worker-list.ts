// The workers of an endpoint in RunPod's format. An endpoint that cannot have workers (no container engine, failing
// starts) has one UNHEALTHY worker, because RunPod's MCP server interprets an empty list as missing GPU capacity.
import type { DialectCall } from '../../dialect.ts';
import { isoTime, systemClock } from '../../runtime/clock.ts';
import { workersBody, type EndpointView, type WorkerView } from './endpoint-shape.ts';

/** Represents the worker that could not be started. Its log contains the reason. */
export const noWorkerId = 'no-worker';

interface WorkerList {
  version: number;
  workers: WorkerView[];
  ended: { id: string }[];
}

export async function endpointWorkers(endpointId: unknown, { operations, context }: DialectCall) {
  const view = await operations.call<EndpointView>('get_endpoint', { id: endpointId }, context);
  const found = await operations.call<WorkerList>('list_workers', { endpointId }, context);
  const isDown = view.trouble !== undefined && found.workers.length === 0;
  const workers = isDown ? [unhealthy(found)] : found.workers;
  return workersBody({ version: found.version, workers }, view.spec.recipe?.image ?? null);
}

/** The log of that worker. */
export async function noWorkerLine(endpointId: unknown, { operations, context }: DialectCall) {
  const view = await operations.call<EndpointView>('get_endpoint', { id: endpointId }, context);
  const line = view.trouble ?? 'No worker failed to start.';
  return { ts: isoTime(systemClock.now()), source: 'system', line };
}

/** The last worker that died has a real log. */
function unhealthy({ version, ended }: WorkerList): WorkerView {
  return {
    id: ended[0]?.id ?? noWorkerId,
    status: 'UNHEALTHY',
    version,
    isStale: false,
    uptimeSeconds: 0,
    startedAt: isoTime(systemClock.now()),
  };
}
