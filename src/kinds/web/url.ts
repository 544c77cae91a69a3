// URL normalization: the URL to fetch (without fragment and tracking parameters), and the key under which equivalent
// spellings share one row.
import { createHash } from 'node:crypto';
import { AppError } from '../../errors.ts';
import { tldts } from '../../runtime/packages.ts';

export const maxUrlChars = 2000;

type QueryMode = 'keep' | 'strip';

/** Parses an http or https URL from a caller, or throws an error that explains what is wrong. */
export function parseUrl(text: string): URL {
  const trimmed = text.trim();
  if (trimmed.length > maxUrlChars) {
    throw new AppError('invalidInput', `The URL is longer than ${maxUrlChars} characters.`);
  }
  const url = URL.parse(trimmed) ?? withScheme(trimmed);
  if (!url) {
    throw new AppError('invalidInput', `"${trimmed.slice(0, 100)}" is not a URL.`, {
      hint: 'Pass a complete URL such as https://example.com/docs/.',
    });
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new AppError(
      'invalidInput',
      `Unsupported protocol: ${url.protocol} Only http: and https: are supported.`,
      {
        hint: 'Pass a URL that starts with https://.',
      },
    );
  }
  return url;
}

/** Reads `example.com/docs` as https. A word without a dot is not a host. */
function withScheme(text: string): URL | undefined {
  if (!/^[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:[/?#]|$)/.test(text)) return undefined;
  return URL.parse(`https://${text}`) ?? undefined;
}

const trackers =
  /^(?:utm_\w+|gclid|gclsrc|dclid|fbclid|msclkid|mc_cid|mc_eid|igshid|yclid|twclid|_ga|_gl|_hsenc|_hsmi|phpsessid|jsessionid|sessionid|session_id|aspsessionid\w*|cfid|cftoken)$/i;

/** Removes fragment, credentials, session ids and tracking parameters. */
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
  // Filters the raw query, because URLSearchParams would re-encode the rest.
  const pairs = url.search.slice(1).split('&');
  const kept = pairs.filter((pair) => !trackers.test(pair.split('=', 1)[0]!));
  if (kept.length < pairs.length) url.search = kept.join('&');
  return url;
}

/** URLs with the same key share one row. Query order and the letter case of escapes are ignored. */
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
  const parsed = tldts().parse(host, { allowPrivateDomains: true });
  return parsed.domain ?? parsed.hostname ?? host;
}

const maxRepeats = 3;

/** Detects endless relative links such as `/a/b/a/b/a/b/a/b`. */
export function loopsInPath(path: string): boolean {
  const parts = path.split('/').filter(Boolean);
  if (parts.length <= maxRepeats) return false;
  const counts = new Map<string, number>();
  for (const part of parts) {
    const n = (counts.get(part) ?? 0) + 1;
    if (n > maxRepeats && part.length > 1) return true;
    counts.set(part, n);
  }
  return false;
}

/** Replaces numbers with #, so that all pages of a calendar have the same pattern. */
export function pathPattern(url: URL): string {
  const names = [...new Set(url.searchParams.keys())].toSorted().join('&');
  return `${url.host}${url.pathname.replace(/\d+/g, '#')}${names ? `?${names}` : ''}`;
}
