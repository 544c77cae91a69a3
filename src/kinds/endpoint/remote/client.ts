// RunPod's data plane as a client sees it: RunPod's cloud, or another Errand. The operator's config names the
// destination, so it is trusted; what comes back is still bounded.
import type { Egress } from '../../../runtime/egress/index.ts';
import { parseJson } from '../../../runtime/json.ts';
import type { Remote } from '../spec.ts';
import { addressOf, isAboutKey } from './outcome.ts';

/** What a call came to. `unanswered`: it may or may not have been done. */
export type RemoteAnswer =
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

const bytesMax = 512 * 1024 * 1024;
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

  /** Why the last call did not reach it; undefined while all is well. */
  trouble(remote: Remote): string | undefined {
    return this.troubles.get(addressOf(remote));
  }

  hasKey(remote: Remote): boolean {
    return this.secret(remote.keyEnv) !== undefined;
  }

  async call(remote: Remote, request: RemoteRequest): Promise<RemoteAnswer> {
    const answer = await this.ask(remote, request);
    const isWell = answer.type === 'ok' || (answer.type === 'refused' && !isAboutKey(answer));
    if (isWell) this.troubles.delete(addressOf(remote));
    else this.troubles.set(addressOf(remote), answer.message);
    return answer;
  }

  private async ask(remote: Remote, request: RemoteRequest): Promise<RemoteAnswer> {
    const { method, path, body, key: idempotencyKey, holdMs = 0 } = request;
    const timeoutMs = remote.timeoutMs + holdMs;
    const root = remote.baseUrl.replace(/\/$/, '');
    let sent = false;
    try {
      const answer = await this.egress.request({
        url: `${root}/${remote.endpointId}${path}`,
        method,
        trust: 'trusted',
        // An old connection may be closed under a submit, and nobody could tell whether it arrived.
        fresh: method === 'POST',
        onSent: () => (sent = true),
        redirects: 0,
        bytesMax,
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
      const text = await answer.body.text();
      return answerOf(answer.status, text, header(answer.headers['retry-after']));
    } catch (error) {
      if (!sent) return { type: 'later', waitMs: unreachableMs, message: reasonOf(error) };
      return { type: 'unanswered', message: reasonOf(error) };
    }
  }
}

function answerOf(status: number, text: string, retryAfter: string | undefined): RemoteAnswer {
  if (status === 429 || status === 503) {
    const seconds = Number(retryAfter);
    const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : laterMsDefault;
    return { type: 'later', waitMs, message: `it answered ${status}` };
  }
  if (status >= 500 || status === 408)
    return { type: 'unanswered', message: `it answered ${status}` };
  const body = parsed(text);
  if (status >= 200 && status < 300) {
    if (body) return { type: 'ok', body };
    return { type: 'unanswered', message: 'its answer is not JSON' };
  }
  const message = typeof body?.error === 'string' ? body.error : text.slice(0, 300);
  return { type: 'refused', status, message };
}

/** What went wrong below is more telling than that something did. */
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
