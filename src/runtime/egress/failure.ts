// Errors of outgoing requests: refused, failed, timed out or too large.
import { AppError } from '../../errors.ts';

export function tooLarge(url: string, maxBytes: number): AppError {
  return new AppError('egressTooLarge', `${url} sent more than ${maxBytes} bytes.`, {
    hint: 'Request less, or raise the size limit for this kind of request.',
    data: { url, maxBytes },
  });
}

export function timedOut(url: string, phase: 'headers' | 'body' | 'total', ms: number): AppError {
  const problem = {
    headers: `did not respond within ${ms} ms`,
    body: `sent nothing for ${ms} ms`,
    total: `did not finish within ${ms} ms`,
  }[phase];
  return new AppError('timeout', `${url} ${problem}.`, {
    data: { url, phase, timeoutMs: ms },
  });
}

export function failed(url: string, reason: string, detail: string, cause?: unknown): AppError {
  return new AppError('egressFailed', `${url} could not be fetched: ${detail}.`, {
    data: { url, reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Maps an error of undici, the resolver or the socket. */
export function toFailure(error: unknown, url: string, timeouts: Timeouts): Error {
  if (error instanceof AppError) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_HEADERS_TIMEOUT')
    return timedOut(url, 'headers', timeouts.headersTimeoutMs);
  if (code === 'UND_ERR_BODY_TIMEOUT') return timedOut(url, 'body', timeouts.bodyTimeoutMs);
  if (code === 'UND_ERR_INVALID_ARG') {
    return new AppError('invalidInput', `Cannot request ${url}: ${message}.`, {
      hint: 'Check the method and the headers.',
      cause: error,
    });
  }
  return failed(url, toReason(code), message, error);
}

interface Timeouts {
  headersTimeoutMs: number;
  bodyTimeoutMs: number;
}

/** The server closed a kept-alive connection just as we used it. Nothing was processed. */
export function isStale(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';
}

function toReason(code: string): string {
  if (/^(ENOTFOUND|EAI_|ENODATA)/.test(code)) return 'dns';
  if (/CERT|TLS|SSL|UNABLE_TO_|SELF_SIGNED/.test(code)) return 'tls';
  if (/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ETIMEDOUT)/.test(code))
    return 'connect';
  if (/^(HPE_|UND_ERR_RES|UND_ERR_HEADERS)/.test(code)) return 'protocol';
  return 'connection';
}

export function abortError(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error
    ? reason
    : new DOMException('The request was aborted', 'AbortError');
}
