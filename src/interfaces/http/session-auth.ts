// Authenticates requests by the session cookie, and serves login and logout.
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Exchange } from './exchange.ts';
import { checkOwnPage, SessionCookie } from './session-cookie.ts';
import { serveLogin, serveLogout, type SessionAccess } from './session-routes.ts';

interface SessionAuthOptions {
  sessions: SessionAccess;
  /** Distinguishes the homes on one machine in the name of the cookie. */
  tag: string;
  publicUrl: string | undefined;
  clock: Clock;
}

/** The cookie counts only here. MCP, dialects and metrics are for programs, which use keys. */
const cookiePaths = '/api/';

export class SessionAuth {
  private readonly sessions: SessionAccess;
  private readonly cookie: SessionCookie;
  private readonly clock: Clock;

  constructor({ sessions, tag, publicUrl, clock }: SessionAuthOptions) {
    this.sessions = sessions;
    this.cookie = new SessionCookie({ tag, publicUrl });
    this.clock = clock;
  }

  /** The session token of a request. Throws if another page may have caused a request that changes something. */
  tokenOf({ request, method, path, crossOrigin, upgraded }: Exchange): string | undefined {
    if (!path.startsWith(cookiePaths) || crossOrigin !== undefined) return undefined;
    const token = this.cookie.read(request);
    if (token === undefined) return undefined;
    if (method !== 'GET') checkOwnPage(request);
    // Browsers always send the origin of a page that opens a WebSocket.
    return upgraded && request.headers.origin === undefined ? undefined : token;
  }

  authenticate(token: string): Promise<Caller | undefined> {
    return this.sessions.authenticate(token);
  }

  /** Removes a cookie that no longer works. */
  clear({ request, response }: Exchange): void {
    response.setHeader('set-cookie', this.cookie.write(request, '', 0));
  }

  /** Serves POST /login and POST /logout; returns false for other requests. */
  async serve({ request, response, method, path, crossOrigin }: Exchange): Promise<boolean> {
    if (method !== 'POST' || crossOrigin !== undefined) return false;
    const { sessions, cookie, clock } = this;
    if (path === '/login') await serveLogin(request, response, { sessions, cookie, clock });
    else if (path === '/logout') await serveLogout(request, response, { sessions, cookie, clock });
    else return false;
    return true;
  }
}
