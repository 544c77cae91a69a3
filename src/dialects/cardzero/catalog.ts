// Public CardZero documents: what this server offers, and the card of an agent. They contain no owner and no key.
import { reputation } from './wallets.ts';
import type { Api, Fields } from './api.ts';
import { cardzeroTools } from './tools.ts';

interface ListedRoute {
  method: string;
  path: string;
  open?: true;
  limit?: { calls: number; windowMs: number; per: string };
}

/** Lists every route and tool, whether it needs a key, and its rate limit. */
export function catalogOf(root: string, routes: readonly ListedRoute[]): Fields {
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

/** The public card of a wallet, with its reputation. Unknown addresses return not found. */
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
