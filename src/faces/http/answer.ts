// What goes back: JSON, problem details (RFC 9457) and streams. Errors leave through `sendProblem` only.
import type { ServerResponse } from 'node:http';
import { AppError, callerError, errorBody, errorKind } from '../../errors.ts';

export const jsonType = 'application/json; charset=utf-8';
export const problemType = 'application/problem+json; charset=utf-8';

export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers?: Record<string, string>,
): void {
  sendText(response, status, JSON.stringify(value ?? null), {
    'content-type': jsonType,
    ...headers,
  });
}

export function sendText(
  response: ServerResponse,
  status: number,
  text: string | Buffer,
  headers: Record<string, string>,
): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  response.writeHead(status, {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': typeof text === 'string' ? Buffer.byteLength(text) : text.length,
    ...headers,
  });
  response.end(text);
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  hint: string;
  retryable: boolean;
  data?: Record<string, unknown>;
}

export function problemOf(error: unknown): Problem {
  const { code, message, hint, data, retryable } = callerError(error);
  return {
    type: `urn:errand:error:${code}`,
    title: title(code),
    status: errorKind(code).http,
    detail: message,
    code,
    hint,
    retryable,
    ...(data ? { data } : {}),
  };
}

export function sendProblem(
  response: ServerResponse,
  error: unknown,
  headers: Record<string, string> = {},
): void {
  const problem = problemOf(error);
  sendText(response, problem.status, JSON.stringify(problem), {
    'content-type': problemType,
    ...errorHeaders(error),
    ...headers,
  });
}

/** What an error says to programs beside its body, whatever form the body has. */
export function errorHeaders(error: unknown): Record<string, string> {
  const { code, data } = errorBody(error);
  const { retryAfterMs, allow } = data ?? {};
  return {
    ...(errorKind(code).http === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    ...(typeof retryAfterMs === 'number'
      ? { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
      : {}),
    ...(Array.isArray(allow) ? { allow: allow.join(', ') } : {}),
  };
}

/** One answer for a known route and for an unknown one, so that nobody without a key learns which is which. */
export function keyNeeded(): AppError {
  return new AppError('unauthorized', 'There is nothing here without a valid key.', {
    hint: 'Send `Authorization: Bearer <key>`; `errand key create` makes one.',
  });
}

/** Resolves when the memory of these bytes may be used again. False: the client left. */
export function written(response: ServerResponse, bytes: Buffer): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    const left = () => resolve(false);
    response.once('close', left);
    response.write(bytes, (error) => {
      response.off('close', left);
      resolve(!error);
    });
  });
}

/** `wrongState` → `Wrong state`. */
function title(code: string): string {
  const words = code.replaceAll(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}
