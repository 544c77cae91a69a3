// POST /login exchanges a login code or an API key for a session cookie. POST /logout ends the session. Both are part of
// HTTP and not operations, because their result is a cookie.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { isRecord } from '../../runtime/json.ts';
import { readBody } from '../../runtime/wire.ts';
import { jsonBody } from './input.ts';
import { checkOwnPage, type SessionCookie } from './session-cookie.ts';

/** What the HTTP interface needs to know about sessions. */
export interface SessionAccess {
  authenticate(token: string): Promise<Caller | undefined>;
  logIn(
    credential: { code: string } | { key: string },
    request: { readOnly?: boolean; client?: string; port?: number },
  ): Promise<{ token: string; expiresAt: number }>;
  revoke(sessionId: string): Promise<void>;
}

interface SessionRoutesDeps {
  sessions: SessionAccess;
  cookie: SessionCookie;
  clock: Clock;
}

const maxLoginBytes = 4096;

export async function serveLogin(
  request: IncomingMessage,
  response: ServerResponse,
  { sessions, cookie, clock }: SessionRoutesDeps,
): Promise<void> {
  requireJson(request);
  const body = jsonBody(await readBody(request, { maxBytes: maxLoginBytes }));
  const { credential, readOnly } = parseLogin(body);
  const client = request.headers['user-agent'];
  const port = request.socket.localPort;
  const { token, expiresAt } = await sessions.logIn(credential, {
    readOnly,
    ...(client === undefined ? {} : { client }),
    ...(port === undefined ? {} : { port }),
  });
  sendCookie(response, cookie.write(request, token, expiresAt - clock.now()));
}

export async function serveLogout(
  request: IncomingMessage,
  response: ServerResponse,
  { sessions, cookie }: SessionRoutesDeps,
): Promise<void> {
  const token = cookie.read(request);
  if (token !== undefined) checkOwnPage(request);
  const caller = token === undefined ? undefined : await sessions.authenticate(token);
  if (caller?.sessionId !== undefined) await sessions.revoke(caller.sessionId);
  sendCookie(response, cookie.write(request, '', 0));
}

function sendCookie(response: ServerResponse, header: string): void {
  response.writeHead(204, { 'set-cookie': header, 'cache-control': 'no-store' });
  response.end();
}

/** Forms of other pages cannot send JSON, so they cannot log a browser in to somebody else's session. */
function requireJson({ headers }: IncomingMessage): void {
  const [media] = (headers['content-type'] ?? '').split(';', 1);
  if (media!.trim().toLowerCase() === 'application/json') return;
  throw new AppError('unsupportedMediaType', 'A login must be JSON.', {
    hint: 'Send {"code": "…"} or {"key": "…"} with `content-type: application/json`.',
  });
}

function parseLogin(body: unknown): {
  credential: { code: string } | { key: string };
  readOnly: boolean;
} {
  const isText = (value: unknown): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= 200;
  const { code, key, readOnly = false } = isRecord(body) ? body : {};
  const isValid = typeof readOnly === 'boolean' && isText(code) !== isText(key);
  if (!isValid || (code !== undefined && key !== undefined))
    throw new AppError('invalidInput', 'A login needs either `code` or `key`.', {
      hint: '`errand open` creates a code. `errand key create` creates a key.',
    });
  return { credential: isText(code) ? { code } : { key: key as string }, readOnly };
}
