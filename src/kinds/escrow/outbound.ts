// Network access of escrow: guarded requests to addresses that callers name, trusted ones to the operator's chain node.
import { AppError } from '../../errors.ts';
import type { Egress } from '../../runtime/egress/index.ts';
import { RpcError, type Rpc } from './settlement/evm/chain.ts';
import type { Fetch } from './x402.ts';

const probeTimeoutMs = 3000;
const maxRpcBytes = 20_000_000;

export function guardedFetch(egress: Egress): Fetch {
  return async (url, { headers, timeoutMs, maxBytes }) => {
    const answer = await egress.request({ url, headers, timeoutMs, maxBytes, trust: 'guarded' });
    const body = await answer.body.bytes();
    return { status: answer.status, headers: plain(answer.headers), body };
  };
}

/** Throws only if the address is refused. A server that does not respond yet may do so once the work is done. */
export async function vetUrl(egress: Egress, url: string): Promise<void> {
  const { hostname, port, protocol } = new URL(url);
  const at = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  try {
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const socket = await egress.connect({
      host,
      port: at,
      trust: 'guarded',
      timeoutMs: probeTimeoutMs,
    });
    socket.destroy();
  } catch (error) {
    if (error instanceof AppError && error.code === 'egressRefused') throw error;
  }
}

export function rpcOf(egress: Egress, url: string, timeoutMs: number): Rpc {
  let id = 0;
  return async (method, params) => {
    id += 1;
    let answer: { result?: unknown; error?: { message: string; data?: unknown } };
    try {
      const response = await egress.request({
        url,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
        trust: 'trusted',
        timeoutMs,
        maxBytes: maxRpcBytes,
      });
      answer = (await response.body.json()) as typeof answer;
    } catch (error) {
      throw new AppError('unavailable', `The chain node did not respond to ${method}.`, {
        hint: 'Nothing is lost: the call is retried. Check the setting escrow.evm.rpcUrl.',
        cause: error,
      });
    }
    if (answer.error) throw new RpcError(answer.error.message, answer.error.data);
    return answer.result ?? null;
  };
}

function plain(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return flat;
}
