// Addresses: what is fetched (as the site wrote it, without fragment and trackers) and the key by which two spellings
// of one address are the same row. Pure.
import { createHash } from 'node:crypto';
import { parse as parseDomain } from 'tldts';
import { AppError } from '../../../errors.ts';

export const urlCharsMax = 2000;

export type QueryMode = 'keep' | 'strip';

/** A web address from a caller. Anything else is refused with what is wrong about it. */
export function parseUrl(text: string): URL {
  const trimmed = text.trim();
  if (trimmed.length > urlCharsMax) {
    throw new AppError('invalidInput', `The address is longer than ${urlCharsMax} characters.`);
  }
  const url = URL.parse(trimmed) ?? withScheme(trimmed);
  if (!url) {
    throw new AppError('invalidInput', `"${trimmed.slice(0, 100)}" is not an address.`, {
      hint: 'Give a whole address such as https://example.com/docs/.',
    });
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new AppError('invalidInput', `Only http and https are fetched, not ${url.protocol}`, {
      hint: 'Give an address that starts with https://.',
    });
  }
  return url;
}

/** `example.com/docs` means https; a word without a dot is no host. */
function withScheme(text: string): URL | undefined {
  if (!/^[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:[/?#]|$)/.test(text)) return undefined;
  return URL.parse(`https://${text}`) ?? undefined;
}

const trackers =
  /^(?:utm_\w+|gclid|gclsrc|dclid|fbclid|msclkid|mc_cid|mc_eid|igshid|yclid|twclid|_ga|_gl|_hsenc|_hsmi|phpsessid|jsessionid|sessionid|session_id|aspsessionid\w*|cfid|cftoken)$/i;

/** What is fetched: no fragment, no credentials, no session ids and trackers. */
export function cleanUrl(input: URL, query: QueryMode = 'keep'): URL {
  const url = new URL(input);
  url.hash = '';
  url.username = '';
  url.password = '';
  if (url.pathname.includes(';'))
    url.pathname = url.pathname.replace(/;(?:jsessionid|sid)=[^/;]*/gi, '');
  if (url.search === '') return url;
  if (query === 'strip') {
    url.search = '';
    return url;
  }
  // As the site wrote it: what is left is not spelled anew.
  const pairs = url.search.slice(1).split('&');
  const kept = pairs.filter((pair) => !trackers.test(pair.split('=', 1)[0]!));
  if (kept.length < pairs.length) url.search = kept.join('&');
  return url;
}

/** Two addresses with one key are one row: order of the query and letter case of escapes do not matter. */
export function urlKey(url: URL): string {
  let search = '';
  if (url.search !== '' && url.search !== '?') {
    const pairs = url.search.slice(1).split('&').filter(Boolean);
    search = `?${pairs.length > 1 ? pairs.toSorted().join('&') : pairs.join('')}`;
  }
  const path = url.pathname.includes('%')
    ? url.pathname.replace(/%[0-9a-f]{2}/gi, (hex) => unreserved(hex.toUpperCase()))
    : url.pathname;
  return createHash('sha256')
    .update(`${url.protocol}//${url.host}${path}${search}`)
    .digest('base64url')
    .slice(0, 22);
}

function unreserved(hex: string): string {
  const char = String.fromCharCode(Number.parseInt(hex.slice(1), 16));
  return /[A-Za-z0-9\-._~]/.test(char) ? char : hex;
}

export function registrableDomain(host: string): string {
  const parsed = parseDomain(host, { allowPrivateDomains: true });
  return parsed.domain ?? parsed.hostname ?? host;
}

const repeatsMax = 3;

/** `/a/b/a/b/a/b/a/b`: a relative link that never ends. */
export function loopsInPath(path: string): boolean {
  const parts = path.split('/').filter(Boolean);
  if (parts.length <= repeatsMax) return false;
  const counts = new Map<string, number>();
  for (const part of parts) {
    const n = (counts.get(part) ?? 0) + 1;
    if (n > repeatsMax && part.length > 1) return true;
    counts.set(part, n);
  }
  return false;
}

/** Numbers become #, so that all pages of one calendar have one pattern. */
export function pathPattern(url: URL): string {
  const names = [...new Set(url.searchParams.keys())].toSorted().join('&');
  return `${url.host}${url.pathname.replace(/\d+/g, '#')}${names ? `?${names}` : ''}`;
}
