// Reads the credentials of a request: the key from one of the usual headers, and on the private socket the caller's
// folder and environment.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import { isWebSocket, protocolOf } from './websocket.ts';

/** Accepts `Bearer <key>`, `x-api-key: <key>`, a bare key as RunPod clients send it, or a WebSocket subprotocol. */
export function requestKey(request: IncomingMessage): string | undefined {
  const { headers } = request;
  const { authorization } = headers;
  if (authorization !== undefined) {
    const key = /^bearer\s+/i.test(authorization) ? authorization.slice(7) : authorization;
    return key.trim() || undefined;
  }
  const key = headers['x-api-key'];
  if (typeof key === 'string' && key.trim() !== '') return key.trim();
  return isWebSocket(request) ? protocolOf(request) : undefined;
}

export function requestOrigin({ headers }: IncomingMessage): Origin | undefined {
  const header = headers['x-errand-origin'];
  if (typeof header !== 'string') return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(header, 'base64url').toString('utf8'));
    if (value !== null && typeof value === 'object') return checkedOrigin(value);
  } catch {
    // Rejected below, like every other invalid value.
  }
  throw wrongOrigin();
}

function checkedOrigin({ cwd, env }: { cwd?: unknown; env?: unknown }): Origin {
  const isText = (value: unknown) => typeof value === 'string';
  if (cwd !== undefined && !isText(cwd)) throw wrongOrigin();
  if (env !== undefined && (env === null || typeof env !== 'object')) throw wrongOrigin();
  if (env !== undefined && !Object.values(env).every(isText)) throw wrongOrigin();
  return {
    ...(cwd === undefined ? {} : { cwd: cwd }),
    ...(env === undefined ? {} : { env: env as Record<string, string> }),
  };
}

function wrongOrigin(): AppError {
  return new AppError(
    'invalidInput',
    'The header x-errand-origin is not a valid base64url-encoded JSON origin.',
    {
      hint: 'Send {"cwd": "…", "env": {"NAME": "value"}} encoded as base64url, as a bridge of this version does.',
    },
  );
}
