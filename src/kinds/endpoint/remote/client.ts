// A client for RunPod's data plane: RunPod's cloud or another Errand. The operator configures the destination, so it
// is trusted, but response sizes are still limited.
import type { Egress } from '../../../runtime/egress/index.ts';
import { parseJson } from '../../../runtime/json.ts';
import type { Remote } from '../spec.ts';
import { addressOf, isAboutKey } from './outcome.ts';

/** The result of a call. `unanswered`: the remote may or may not have acted on it. */
export type RemoteResult =
  | { type: 'ok'; body: Record<string, unknown> }
  | { type: 'later'; waitMs: number; message: string }
  | { type: 'refused'; status: number; message: string }
  | { type: 'unanswered'; message: string };

interface RemoteRequest {
  method: 'GET' | 'POST';
  path: string;
  body?: unknown;
  key?: string;
  holdMs?: number;
}

const maxBytes = 512 * 1024 * 1024;
const laterMsDefault = 5000;
const unreachableMs = 2000;

export class RemoteClient {
  private readonly egress: Egress;
  private readonly secret: (name: string) => string | undefined;
  private readonly troubles = new Map<string, string>();

  constructor(egress: Egress, secret: (name: string) => string | undefined) {
    this.egress = egress;
    this.secret = secret;
  }

  /** Why the last call failed; undefined if it succeeded. */
  trouble(remote: Remote): string | undefined {
    return this.troubles.get(addressOf(remote));
  }

  hasKey(remote: Remote): boolean {
    return this.secret(remote.keyEnv) !== undefined;
  }

  async call(remote: Remote, request: RemoteRequest): Promise<RemoteResult> {
    const result = await this.ask(remote, request);
    const isReachable = result.type === 'ok' || (result.type === 'refused' && !isAboutKey(result));
    if (isReachable) this.troubles.delete(addressOf(remote));
    else this.troubles.set(addressOf(remote), result.message);
    return result;
  }

  private async ask(remote: Remote, request: RemoteRequest): Promise<RemoteResult> {
    const { method, path, body, key: idempotencyKey, holdMs = 0 } = request;
    const timeoutMs = remote.timeoutMs + holdMs;
    const root = remote.baseUrl.replace(/\/$/, '');
    let sent = false;
    try {
      const result = await this.egress.request({
        url: `${root}/${remote.endpointId}${path}`,
        method,
        trust: 'trusted',
        // A reused connection may close during a submission, and then it is unknown whether the job arrived.
        fresh: method === 'POST',
        onSent: () => (sent = true),
        redirects: 0,
        maxBytes,
        timeoutMs,
        headersTimeoutMs: timeoutMs,
        headers: {
          authorization: `Bearer ${this.secret(remote.keyEnv) ?? ''}`,
          accept: 'application/json',
          ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        },
        ...(method === 'POST' ? { body: JSON.stringify(body ?? {}) } : {}),
      });
      const text = await result.body.text();
      return toResult(result.status, text, header(result.headers['retry-after']));
    } catch (error) {
      if (!sent) return { type: 'later', waitMs: unreachableMs, message: reasonOf(error) };
      return { type: 'unanswered', message: reasonOf(error) };
    }
  }
}

function toResult(status: number, text: string, retryAfter: string | undefined): RemoteResult {
  if (status === 429 || status === 503) {
    const seconds = Number(retryAfter);
    const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : laterMsDefault;
    return { type: 'later', waitMs, message: `it responded with ${status}` };
  }
  if (status >= 500 || status === 408)
    return { type: 'unanswered', message: `it responded with ${status}` };
  const body = parsed(text);
  if (status >= 200 && status < 300) {
    if (body) return { type: 'ok', body };
    return { type: 'unanswered', message: 'its response is not JSON' };
  }
  const message = typeof body?.error === 'string' ? body.error : text.slice(0, 300);
  return { type: 'refused', status, message };
}

/** Returns the underlying cause, which says more than the outer error. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error && cause.message !== '' ? cause.message : message;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text);
    return value !== null && typeof value === 'object'
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const header = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value;
