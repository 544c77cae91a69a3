// Host and Origin checks. A page that a browser loaded elsewhere must not be able to talk to this server, neither by a
// name that was re-pointed at our address (Host) nor across origins (Origin).
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';

const ownNames = ['localhost', '127.0.0.1', '[::1]'];

export interface Visit {
  /** Set when the request comes from a page of another, allowed origin: the answer must say so. */
  crossOrigin?: string;
}

const sameSite: Visit = {};

export class Guard {
  private readonly hosts: Set<string>;
  private readonly origins: Set<string>;
  private readonly any: boolean;

  /** Entries are names (`jobs.example.com`), origins (`https://jobs.example.com`), or `*` for any host. */
  constructor(allowed: readonly string[]) {
    const entries = allowed.map((entry) => entry.trim().toLowerCase());
    this.any = entries.includes('*');
    this.origins = new Set(entries.filter((entry) => entry.includes('://')));
    this.hosts = new Set([...ownNames, ...entries.filter((entry) => !entry.includes('://'))]);
  }

  check(request: IncomingMessage): Visit {
    // Node shows the first of several; a proxy in front may have checked the last.
    if ((request.headersDistinct.host?.length ?? 0) > 1) {
      throw new AppError('invalidInput', 'The request has more than one Host header.', {
        hint: 'Send exactly one.',
      });
    }
    const host = request.headers.host?.toLowerCase();
    if (!host || !this.knows(hostName(host), request)) {
      throw new AppError('forbidden', `The host name ${host ?? '(none)'} is not served here.`, {
        hint: 'Add the name to the setting `server.allowedHosts` to serve it.',
      });
    }
    const origin = request.headers.origin;
    return origin === undefined ? sameSite : this.visit(origin.toLowerCase(), host);
  }

  private visit(origin: string, host: string): Visit {
    const isListed = this.origins.has(origin);
    // We speak HTTP: a page over TLS with our name came through a proxy, which the operator must have named.
    if (origin === `http://${host}` || (isListed && origin === `https://${host}`)) return sameSite;
    if (isListed) return { crossOrigin: origin };
    throw new AppError('forbidden', `Pages of ${origin} may not call this server.`, {
      hint: 'Add the origin (scheme://host:port) to the setting `server.allowedHosts` to allow it.',
    });
  }

  private knows(name: string, request: IncomingMessage): boolean {
    if (this.any || this.hosts.has(name)) return true;
    // Our own address as a literal cannot have been re-pointed.
    const address = request.socket.localAddress?.replace(/^::ffff:/, '').toLowerCase();
    return address !== undefined && (name === address || name === `[${address}]`);
  }
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
