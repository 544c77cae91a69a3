// The workers of an endpoint in RunPod's format. An endpoint that cannot have workers (no container engine, failing
// starts) has one UNHEALTHY worker, because RunPod's MCP server interprets an empty list as missing GPU capacity.
import type { OutputOf } from '../../contract.ts';
import { getEndpoint } from '../../kinds/endpoint/contracts/endpoints.ts';
import { listWorkers } from '../../kinds/endpoint/contracts/workers.ts';
import { callUnchecked, type DialectCall } from '../../dialect.ts';
import { isoTime, systemClock } from '../../runtime/clock.ts';
import { workersBody, type WorkerView } from './endpoint-shape.ts';

/** Represents the worker that could not be started. Its log contains the reason. */
export const noWorkerId = 'no-worker';

type WorkerList = OutputOf<typeof listWorkers>;

export async function endpointWorkers(endpointId: unknown, call: DialectCall) {
  const view = await callUnchecked(call, getEndpoint, { id: endpointId });
  const found = await callUnchecked(call, listWorkers, { endpointId });
  const isDown = view.trouble !== undefined && found.workers.length === 0;
  const workers = isDown ? [unhealthy(found)] : found.workers;
  const { recipe } = view.spec;
  const image = recipe && 'image' in recipe ? recipe.image : null;
  return workersBody({ version: found.version, workers }, image);
}

/** The log of that worker. */
export async function noWorkerLine(endpointId: unknown, call: DialectCall) {
  const view = await callUnchecked(call, getEndpoint, { id: endpointId });
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
