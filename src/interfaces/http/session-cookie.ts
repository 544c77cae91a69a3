// The cookie of a dashboard session, and the rules under which a request may use it. A page of another origin must not act
// with it, even a page on another port of the same host, which browsers count as the same site.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';

interface CookieOptions {
  /** Distinguishes the homes on one machine. Cookies are shared by all ports of a host. */
  tag: string;
  publicUrl: string | undefined;
}

export class SessionCookie {
  private readonly tag: string;
  private readonly publicUrl: URL | undefined;

  constructor({ tag, publicUrl }: CookieOptions) {
    this.tag = tag;
    this.publicUrl = publicUrl === undefined ? undefined : new URL(publicUrl);
  }

  /** The token of the request, unless a page of another origin sent it. */
  read(request: IncomingMessage): string | undefined {
    const { cookie } = request.headers;
    if (cookie === undefined || !isOwnPage(request)) return undefined;
    const values = new Map(cookie.split(';').map((pair) => splitPair(pair)));
    for (const name of this.names(request)) {
      const value = values.get(name);
      if (value !== undefined && value !== '') return value;
    }
    return undefined;
  }

  /** The Set-Cookie header for a token. `maxAgeMs` 0 removes the cookie. */
  write(request: IncomingMessage, token: string, maxAgeMs: number): string {
    const isSecure = this.isSecure(request);
    const path = this.path();
    const name = this.prefixed(request, isSecure);
    const age = Math.max(0, Math.floor(maxAgeMs / 1000));
    return `${name}=${token}; Path=${path}; Max-Age=${age}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }

  /** Behind https only a prefixed cookie counts: other hosts of the domain cannot set one. */
  private names(request: IncomingMessage): string[] {
    const secure = this.prefixed(request, true);
    return this.publicUrl?.protocol === 'https:' ? [secure] : [secure, this.plainName(request)];
  }

  private prefixed(request: IncomingMessage, isSecure: boolean): string {
    if (!isSecure) return this.plainName(request);
    return `${this.path() === '/' ? '__Host-' : '__Secure-'}${this.plainName(request)}`;
  }

  private plainName({ socket }: IncomingMessage): string {
    return `errand-${this.tag}-${this.publicUrl ? this.publicUrl.port || 'public' : socket.localPort}`;
  }

  /** The base path of a proxy, which removes it before the request arrives here. */
  private path(): string {
    return this.publicUrl?.pathname ?? '/';
  }

  /** This server speaks HTTP only. The page's own origin tells whether a proxy in front of it speaks https. */
  private isSecure({ headers }: IncomingMessage): boolean {
    if (this.publicUrl) return this.publicUrl.protocol === 'https:';
    return headers.origin?.toLowerCase().startsWith('https:') === true;
  }
}

/** Rejects a state-changing request with a cookie unless it provably comes from our own page. */
export function checkOwnPage(request: IncomingMessage): void {
  const { origin } = request.headers;
  // The guard has already rejected foreign origins.
  const isProven = origin !== undefined || request.headers['sec-fetch-site'] === 'same-origin';
  if (!isProven || !isOwnPage(request))
    throw new AppError(
      'forbidden',
      'A request with a session cookie must come from the dashboard.',
      {
        hint: 'Programs use an API key instead: `Authorization: Bearer <key>`.',
      },
    );
  const [media] = (request.headers['content-type'] ?? '').split(';', 1);
  if (media!.trim().toLowerCase() !== 'application/json')
    throw new AppError('unsupportedMediaType', 'A request with a session cookie must be JSON.', {
      hint: 'Send `content-type: application/json`, even without a body.',
    });
}

/** Browsers report where a request comes from. `none`: the person typed the address. */
function isOwnPage({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined || site === 'same-origin' || site === 'none';
}

function splitPair(pair: string): [string, string] {
  const at = pair.indexOf('=');
  return at < 0 ? [pair.trim(), ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
}
