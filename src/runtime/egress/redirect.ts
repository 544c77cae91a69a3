// Derives the next hop from a redirect: method, headers, and trust in the new destination.
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

/** Headers that only one server may receive. */
const secretName = /auth|cookie|token|key|secret|signature|session|^host$/;
const bodyHeader = /^content-/;

export function nextHop(hop: Hop, { status, headers }: Head): Hop | undefined {
  const location = headers.location;
  if (typeof location !== 'string' || ![301, 302, 303, 307, 308].includes(status)) return undefined;
  const url = parseLocation(location, hop.url);
  const isSameOrigin = url.origin === hop.url.origin;
  const becomesGet =
    (status === 303 && hop.method !== 'HEAD') || (status < 303 && hop.method === 'POST');
  if (!becomesGet && hop.body !== undefined && !isReplayable(hop.body))
    throw failed(
      hop.url.href,
      'redirects',
      'the redirect requires the body again, which was a stream',
    );
  const credentials = credentialsHeader(url);
  const kept = Object.entries(hop.headers).filter(
    ([name]) => !(becomesGet && bodyHeader.test(name)) && (isSameOrigin || !secretName.test(name)),
  );
  return {
    url,
    method: becomesGet ? 'GET' : hop.method,
    headers: {
      ...Object.fromEntries(kept),
      ...(credentials ? { authorization: credentials } : {}),
    },
    body: becomesGet ? undefined : hop.body,
    // The other side chooses the redirect target, so it is never trusted.
    trust: isSameOrigin ? hop.trust : 'guarded',
  };
}

/** Moves the credentials of `https://user:pass@host` from the URL into a header. */
export function credentialsHeader(url: URL): string | undefined {
  if (url.username === '' && url.password === '') return undefined;
  const pair = `${tryDecode(url.username)}:${tryDecode(url.password)}`;
  url.username = '';
  url.password = '';
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function tryDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseLocation(location: string, base: URL): URL {
  try {
    return new URL(location, base);
  } catch (error) {
    throw failed(base.href, 'redirects', 'the redirect location is not a URL', error);
  }
}

function isReplayable(body: NonNullable<Hop['body']>): boolean {
  return typeof body === 'string' || Buffer.isBuffer(body);
}
