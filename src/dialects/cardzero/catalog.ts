// Public documents of CardZero: what this server offers, and who an agent is. They name no owner and no key.
import { reputation } from './wallets.ts';
import type { Api, Fields } from './api.ts';
import { cardzeroTools } from './tools.ts';

interface Offered {
  method: string;
  path: string;
  open?: true;
  limit?: { calls: number; windowMs: number; per: string };
}

/** Every route and tool, which of them need a key, and their rate limits. */
export function catalogOf(root: string, routes: readonly Offered[]): Fields {
  return {
    currency: 'CREDIT',
    decimals: 6,
    services: routes.map(({ method, path, open, limit }) => ({
      method,
      path: `${root}${path}`,
      auth: open ? 'none' : 'api_key',
      ...(limit
        ? { rateLimit: { calls: limit.calls, seconds: limit.windowMs / 1000, per: limit.per } }
        : {}),
    })),
    tools: cardzeroTools.map(({ name, description }) => ({ name, description })),
  };
}

/** A wallet that can be hired, with its reputation. Unknown addresses are not found. */
export const agentCard: Api = async (call, input) => {
  const { agentId, score, counts, trustSignals } = await reputation(call, input);
  return {
    type: 'agent',
    agentId,
    reputation: { score, counts, trustSignals },
    services: [{ name: 'escrow jobs', endpoint: '/cardzero/v1/jobs' }],
    supportedTrust: ['reputation'],
  };
};
