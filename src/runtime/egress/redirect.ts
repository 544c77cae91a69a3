// From an answer to the next hop: which method, which headers, and how far the new destination is trusted.
import { failed } from './failure.ts';
import type { Trust } from './policy.ts';
import type { Head } from './transfer.ts';

export interface Hop {
  url: URL;
  method: string;
  headers: Record<string, string>;
  body: string | Buffer | AsyncIterable<Uint8Array> | undefined;
  trust: Trust;
}

/** Headers that are meant for one server only. */
const secretName = /auth|cookie|token|key|secret|signature|session|^host$/;
const bodyHeader = /^content-/;

export function nextHop(hop: Hop, { status, headers }: Head): Hop | undefined {
  const location = headers.location;
  if (typeof location !== 'string' || ![301, 302, 303, 307, 308].includes(status)) return undefined;
  const url = target(location, hop.url);
  const isSame = url.origin === hop.url.origin;
  const isTurned =
    (status === 303 && hop.method !== 'HEAD') || (status < 303 && hop.method === 'POST');
  if (!isTurned && hop.body !== undefined && !isReplayable(hop.body))
    throw failed(hop.url.href, 'redirects', 'it wants a body again that was a stream');
  const credentials = credentialsHeader(url);
  const kept = Object.entries(hop.headers).filter(
    ([name]) => !(isTurned && bodyHeader.test(name)) && (isSame || !secretName.test(name)),
  );
  return {
    url,
    method: isTurned ? 'GET' : hop.method,
    headers: {
      ...Object.fromEntries(kept),
      ...(credentials ? { authorization: credentials } : {}),
    },
    body: isTurned ? undefined : hop.body,
    // Where a redirect points is the other side's word, whoever the other side is.
    trust: isSame ? hop.trust : 'guarded',
  };
}

/** `https://user:pass@host` as a header; the URL loses it. */
export function credentialsHeader(url: URL): string | undefined {
  if (url.username === '' && url.password === '') return undefined;
  const pair = `${decoded(url.username)}:${decoded(url.password)}`;
  url.username = '';
  url.password = '';
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function target(location: string, base: URL): URL {
  try {
    return new URL(location, base);
  } catch (error) {
    throw failed(base.href, 'redirects', 'it redirects to something that is no URL', error);
  }
}

function isReplayable(body: NonNullable<Hop['body']>): boolean {
  return typeof body === 'string' || Buffer.isBuffer(body);
}
