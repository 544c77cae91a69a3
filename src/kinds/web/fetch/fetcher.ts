// One request to a site: through the guarded way out, under caps of time and size, redirects not followed (every hop is
// an address of its own with a fate of its own). A failure is told in one word and whether it may pass.
import { AppError } from '../../../errors.ts';
import type { Egress } from '../../../runtime/egress/index.ts';

export interface FetchRequest {
  url: string;
  headers?: Record<string, string>;
  timeoutMs: number;
  bytesMax: number;
  /** The beginning will do: what is longer is cut instead of refused. */
  cut?: boolean;
  signal?: AbortSignal;
  method?: 'GET' | 'POST' | 'HEAD';
  body?: string;
  /** The address is the operator's own (settings), not a caller's or a page's. */
  trusted?: boolean;
}

export interface Fetched {
  status: number;
  headers: Record<string, string>;
  /** Line by line: joined, one would say whose rules the next one has. */
  robotsTags: readonly string[];
  body: Uint8Array;
}

export const isRedirect = ({ status, headers }: Fetched): boolean =>
  [301, 302, 303, 307, 308].includes(status) && headers.location !== undefined;

export type Fetch = (request: FetchRequest) => Promise<Fetched>;

export interface Failure {
  reason: string;
  message: string;
  hint?: string;
  /** The same request may succeed later. */
  passing: boolean;
}

/** Fails the same way next time, whatever the weather. */
const lasting = new Set(['ENOTFOUND', 'tls', 'redirects']);

export function failureOf(error: unknown): Failure {
  if (!(error instanceof AppError)) {
    const message = error instanceof Error ? error.message : String(error);
    return { reason: 'network', message: message.slice(0, 300), passing: true };
  }
  const { code, message, hint, data } = error;
  const told = { message: message.slice(0, 300), ...(hint === undefined ? {} : { hint }) };
  if (code !== 'egressFailed') {
    const reason = code === 'egressTooLarge' ? 'tooLarge' : code;
    return { ...told, reason, passing: code === 'timeout' || code === 'unavailable' };
  }
  const cause = (error.cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  const reason = String(data?.reason ?? 'network');
  return { ...told, reason, passing: !lasting.has(cause) && !lasting.has(reason) };
}

/** Seconds or a date; undefined when there is none or it makes no sense. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

export function createFetch(egress: Egress): Fetch {
  return async ({ url, headers, timeoutMs, bytesMax, cut, signal, method, body, trusted }) => {
    const answer = await egress.request({
      url,
      method: method ?? 'GET',
      ...(headers ? { headers } : {}),
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
      trust: trusted ? 'trusted' : 'guarded',
      redirects: trusted ? 5 : 0,
      bytesMax: cut ? Number.MAX_SAFE_INTEGER : bytesMax,
      timeoutMs,
    });
    return {
      status: answer.status,
      headers: plain(answer.headers),
      robotsTags: [answer.headers['x-robots-tag'] ?? []].flat(),
      body: cut ? await beginning(answer.body, bytesMax) : await answer.body.bytes(),
    };
  };
}

async function beginning(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= bytesMax) break;
  }
  return Buffer.concat(chunks).subarray(0, bytesMax);
}

function plain(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value;
  return flat;
}
