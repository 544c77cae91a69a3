// Sends one request through the guarded egress, with limits on time and size. Does not follow redirects, because every hop
// is a URL with its own outcome. Classifies failures by reason and whether they are temporary.
import { AppError } from '../../../errors.ts';
import type { Egress } from '../../../runtime/egress/index.ts';

interface FetchRequest {
  url: string;
  headers?: Record<string, string>;
  timeoutMs: number;
  maxBytes: number;
  /** Truncate a longer body instead of failing. */
  cut?: boolean;
  signal?: AbortSignal;
  method?: 'GET' | 'POST' | 'HEAD';
  body?: string;
  /** The URL comes from the operator's settings, not from a caller or a page. */
  trusted?: boolean;
}

export interface Fetched {
  status: number;
  headers: Record<string, string>;
  /** One entry per header line. Joined lines would change which bot a rule applies to. */
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

/** Failures that a retry cannot fix. */
const permanent = new Set(['ENOTFOUND', 'tls', 'redirects']);

export function failureOf(error: unknown): Failure {
  if (!(error instanceof AppError)) {
    const message = error instanceof Error ? error.message : String(error);
    return { reason: 'network', message: message.slice(0, 300), passing: true };
  }
  const { code, message, hint, data } = error;
  const texts = { message: message.slice(0, 300), ...(hint === undefined ? {} : { hint }) };
  if (code !== 'egressFailed') {
    const reason = code === 'egressTooLarge' ? 'tooLarge' : code;
    return { ...texts, reason, passing: code === 'timeout' || code === 'unavailable' };
  }
  const cause = (error.cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  const reason = String(data?.reason ?? 'network');
  return { ...texts, reason, passing: !permanent.has(cause) && !permanent.has(reason) };
}

/** Parses seconds or a date. Undefined if the header is missing or invalid. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

export function createFetch(egress: Egress): Fetch {
  return async ({ url, headers, timeoutMs, maxBytes, cut, signal, method, body, trusted }) => {
    const response = await egress.request({
      url,
      method: method ?? 'GET',
      ...(headers ? { headers } : {}),
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
      trust: trusted ? 'trusted' : 'guarded',
      redirects: trusted ? 5 : 0,
      maxBytes: cut ? Number.MAX_SAFE_INTEGER : maxBytes,
      timeoutMs,
    });
    return {
      status: response.status,
      headers: flatten(response.headers),
      robotsTags: [response.headers['x-robots-tag'] ?? []].flat(),
      body: cut ? await readBeginning(response.body, maxBytes) : await response.body.bytes(),
    };
  };
}

async function readBeginning(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value;
  return flat;
}
