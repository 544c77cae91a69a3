// Cookies as they go back to who set them: to the same host, or to the hosts of the domain they were set for. Paths and
// ends are not looked at: a jar lives no longer than one page or one crawl.
import { registrableDomain } from '../crawl/url.ts';

const placesMax = 1000;
const pairsMax = 50;
const pairCharsMax = 4096;

export class CookieJar {
  /** By host, or by domain with a dot before it; then by name. */
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

  /** As a header; undefined: there are none. */
  of({ host, hostname }: URL): string | undefined {
    const mine = [...this.places].filter(
      ([place]) => place === host || (place.startsWith('.') && `.${hostname}`.endsWith(place)),
    );
    const cookies = mine.map(([, pairs]) => [...pairs.values()].join('; '));
    return cookies.length > 0 ? joinedCookies(...cookies) : undefined;
  }

  private keep(place: string, pair: string): void {
    const pairs = this.places.get(place) ?? new Map<string, string>();
    const name = nameOf(pair);
    if (pair.length > pairCharsMax || (pairs.size >= pairsMax && !pairs.has(name))) return;
    if (this.places.size >= placesMax && !this.places.has(place)) return;
    pairs.set(name, pair);
    this.places.set(place, pairs);
  }
}

/** Headers of cookies as one; of two with one name, the later. */
export function joinedCookies(...cookies: string[]): string {
  const pairs = cookies.flatMap((one) => one.split(/;\s*/)).filter(Boolean);
  return [...new Map(pairs.map((pair) => [nameOf(pair), pair])).values()].join('; ');
}

/** Names of what is set, as a mark. */
export const cookieNames = (setCookie: string): string => eachOf(setCookie).map(nameOf).join(' ');

/** Several headers came as one; a comma also stands in dates. */
const eachOf = (setCookie: string): string[] =>
  setCookie === '' ? [] : setCookie.split(/,\s*(?=[^;,=\s]+=)/);

const nameOf = (pair: string): string => pair.split('=', 1)[0]!;

/** A domain that the host belongs to and that is one owner's: not all of `.com`. */
function placeOf({ host, hostname }: URL, domain: string | undefined): string {
  const wide = domain?.replace(/^\./, '').toLowerCase();
  if (!wide || !`.${hostname}`.endsWith(`.${wide}`)) return host;
  return registrableDomain(wide) === registrableDomain(hostname) ? `.${wide}` : host;
}
