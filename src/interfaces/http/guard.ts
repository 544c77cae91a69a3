// Checks the Host and Origin headers. A web page from elsewhere must not be able to call this server, neither through a
// DNS name that was rebound to our address (Host) nor across origins (Origin).
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';

const ownNames = ['localhost', '127.0.0.1', '[::1]'];

interface OriginCheck {
  /** Set when the request comes from another, allowed origin: the response then needs CORS headers. */
  crossOrigin?: string;
}

const sameSite: OriginCheck = {};

export class Guard {
  private readonly hosts: Set<string>;
  private readonly origins: Set<string>;
  private readonly any: boolean;

  /** The origin of `server.publicUrl`. The proxy in front of it may send another Host. */
  private readonly own: string | undefined;

  /** The last Host header with an allowed name: clients of one server send the same. */
  private lastHost: string | undefined;

  /** Entries are names (`jobs.example.com`), origins (`https://jobs.example.com`), or `*` for any host. */
  constructor(allowed: readonly string[], own?: string) {
    this.own = own?.toLowerCase();
    const entries = allowed.map((entry) => entry.trim().toLowerCase());
    this.any = entries.includes('*');
    this.origins = new Set(entries.filter((entry) => entry.includes('://')));
    this.hosts = new Set([...ownNames, ...entries.filter((entry) => !entry.includes('://'))]);
  }

  check(request: IncomingMessage): OriginCheck {
    // Node reports the first of several Host headers; a proxy may have checked the last one.
    if (countHosts(request.rawHeaders) > 1) {
      throw new AppError('invalidInput', 'The request has more than one Host header.', {
        hint: 'Send exactly one Host header.',
      });
    }
    const sent = request.headers.host;
    const { origin } = request.headers;
    if (sent !== undefined && sent === this.lastHost && origin === undefined) return sameSite;
    const host = sent?.toLowerCase();
    if (!host || !this.isAllowedHost(hostName(host), request)) {
      throw new AppError('forbidden', `The host name ${host ?? '(none)'} is not served here.`, {
        hint: 'Add the name to the setting `server.allowedHosts` to serve it.',
      });
    }
    if (this.isListedHost(hostName(host))) this.lastHost = sent;
    return origin === undefined ? sameSite : this.checkOrigin(origin.toLowerCase(), host);
  }

  private checkOrigin(origin: string, host: string): OriginCheck {
    const isListed = this.origins.has(origin);
    if (origin === this.own) return sameSite;
    // This server only speaks HTTP: an https page with our name came through a proxy, which the operator must allow.
    if (origin === `http://${host}` || (isListed && origin === `https://${host}`)) return sameSite;
    if (isListed) return { crossOrigin: origin };
    throw new AppError('forbidden', `Pages from ${origin} may not call this server.`, {
      hint: 'Add the origin (scheme://host:port) to the setting `server.allowedHosts` to allow it.',
    });
  }

  private isListedHost(name: string): boolean {
    return this.any || this.hosts.has(name);
  }

  private isAllowedHost(name: string, request: IncomingMessage): boolean {
    if (this.isListedHost(name)) return true;
    // Our own IP address cannot have been rebound.
    const address = request.socket.localAddress?.replace(/^::ffff:/, '').toLowerCase();
    return address !== undefined && (name === address || name === `[${address}]`);
  }
}

/** Names and values alternate. */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count;
}

export function corsHeaders(origin: string): Record<string, string> {
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers':
      'authorization, content-type, x-api-key, last-event-id, mcp-session-id, mcp-protocol-version',
    'access-control-expose-headers': 'mcp-session-id, retry-after',
    'access-control-max-age': '600',
    vary: 'origin',
  };
}

function hostName(host: string): string {
  return host.replace(/:\d+$/, '').replace(/\.$/, '');
}
