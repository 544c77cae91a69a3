// Our errors in SearchClaw's documented shape: {error: {code, message, status}}. Pure.
import { AppError, errorKind } from '../../errors.ts';

const codes: Record<string, string> = {
  invalidInput: 'invalid_request',
  unauthorized: 'unauthorized',
  forbidden: 'forbidden',
  egressRefused: 'forbidden',
  robotsDisallowed: 'forbidden',
  notFound: 'not_found',
  budgetExhausted: 'credits_exhausted',
  rateLimited: 'rate_limited',
  limitExceeded: 'rate_limited',
};

export interface Fault {
  code: string;
  message: string;
  status: number;
  hint?: string;
}

export function faultOf(error: unknown): Fault {
  if (!(error instanceof AppError)) {
    return { code: 'internal_error', message: 'An internal error happened.', status: 500 };
  }
  const { http } = errorKind(error.code);
  const code =
    codes[error.code] ?? error.code.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return {
    code,
    message: error.message,
    status: http,
    ...(error.hint ? { hint: error.hint } : {}),
  };
}
