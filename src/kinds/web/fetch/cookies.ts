// A cookie jar. Cookies are sent to the host or domain that they were set for. Paths and expiry are ignored, because a jar
// lasts only for one page or one crawl.
import { registrableDomain } from '../url.ts';

const maxPlaces = 1000;
const maxPairs = 50;
const maxPairChars = 4096;

export class CookieJar {
  /** By host, or by domain with a leading dot; then by name. */
  private readonly places = new Map<string, Map<string, string>>();

  constructor(...others: CookieJar[]) {
    for (const other of others) this.add(other);
  }

  take(url: URL, setCookie: string | undefined): void {
    for (const one of eachOf(setCookie ?? '')) {
      const [pair = '', ...attributes] = one.split(';').map((part) => part.trim());
      const domain = attributes.find((part) => /^domain=/i.test(part))?.slice('domain='.length);
      this.keep(placeOf(url, domain), pair);
    }
  }

  add(other: CookieJar): void {
    for (const [place, pairs] of other.places)
      for (const pair of pairs.values()) this.keep(place, pair);
  }

  /** The Cookie header for a URL, or undefined if there are no cookies. */
  of({ host, hostname }: URL): string | undefined {
    const mine = [...this.places].filter(
      ([place]) => place === host || (place.startsWith('.') && `.${hostname}`.endsWith(place)),
    );
    const cookies = mine.map(([, pairs]) => [...pairs.values()].join('; '));
    return cookies.length > 0 ? joinCookies(...cookies) : undefined;
  }

  private keep(place: string, pair: string): void {
    const pairs = this.places.get(place) ?? new Map<string, string>();
    const name = nameOf(pair);
    if (pair.length > maxPairChars || (pairs.size >= maxPairs && !pairs.has(name))) return;
    if (this.places.size >= maxPlaces && !this.places.has(place)) return;
    pairs.set(name, pair);
    this.places.set(place, pairs);
  }
}

/** Joins Cookie headers. Later cookies replace earlier ones with the same name. */
export function joinCookies(...cookies: string[]): string {
  const pairs = cookies.flatMap((one) => one.split(/;\s*/)).filter(Boolean);
  return [...new Map(pairs.map((pair) => [nameOf(pair), pair])).values()].join('; ');
}

/** The names of the cookies that are set. */
export const cookieNames = (setCookie: string): string => eachOf(setCookie).map(nameOf).join(' ');

/** Splits joined Set-Cookie headers. Commas also occur in dates. */
const eachOf = (setCookie: string): string[] =>
  setCookie === '' ? [] : setCookie.split(/,\s*(?=[^;,=\s]+=)/);

const nameOf = (pair: string): string => pair.split('=', 1)[0]!;

/** The cookie's scope: its domain attribute if valid for this host and not a public suffix, else the host. */
function placeOf({ host, hostname }: URL, domain: string | undefined): string {
  const wide = domain?.replace(/^\./, '').toLowerCase();
  if (!wide || !`.${hostname}`.endsWith(`.${wide}`)) return host;
  return registrableDomain(wide) === registrableDomain(hostname) ? `.${wide}` : host;
}
