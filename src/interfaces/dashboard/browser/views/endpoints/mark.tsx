// The state of an endpoint as shape and word.
import { Mark } from '../../parts/mark.tsx';
import type { Endpoint } from './types.ts';

export function EndpointMark({ endpoint, isPaused }: { endpoint: Endpoint; isPaused: boolean }) {
  const { workers } = endpoint.health;
  if (isPaused) return <Mark tone="wait" word="paused" />;
  if (endpoint.trouble !== undefined) return <Mark tone="bad" word="workers fail" />;
  if ((workers.running ?? 0) > 0) return <Mark tone="run" word="running" />;
  if ((workers.initializing ?? 0) > 0) return <Mark tone="wait" word="starting" />;
  if ((workers.ready ?? 0) > 0) return <Mark tone="ok" word="ready" />;
  return <Mark tone="off" word="idle" />;
}
