// Error responses as problem details (RFC 9457). Every error in our own API is sent by `sendProblem`; dialects use the
// error format of their system.
import type { ServerResponse } from 'node:http';
import { AppError, callerError, errorBody, errorKind } from '../../errors.ts';
import { sendText } from './response.ts';

export const problemType = 'application/problem+json; charset=utf-8';

interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  hint: string;
  retryable: boolean;
  data?: Record<string, unknown>;
}

export function toProblem(error: unknown): Problem {
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
  const problem = toProblem(error);
  sendText(response, problem.status, JSON.stringify(problem), {
    'content-type': problemType,
    ...errorHeaders(error),
    ...headers,
  });
}

/** Headers that describe the error to programs, regardless of the body format. */
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

/** The same error for known and unknown routes, so that callers without a key cannot tell them apart. */
export function keyRequired(): AppError {
  return new AppError('unauthorized', 'A valid API key is required.', {
    hint: 'Send `Authorization: Bearer <key>`. Create a key with `errand key create`.',
  });
}

/** `wrongState` → `Wrong state`. */
function title(code: string): string {
  const words = code.replaceAll(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}
