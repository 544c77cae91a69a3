// The public interface of egress.
export { createEgress, egressLimits } from './egress.ts';
export type {
  Egress,
  EgressLimits,
  EgressOptions,
  EgressRequest,
  EgressResponse,
} from './egress.ts';
export type { EgressBody } from './body.ts';
export type { EgressPolicy, Trust } from './policy.ts';
export { createEgressProxy } from './proxy.ts';
export type { EgressProxy, EgressProxyOptions } from './proxy.ts';
