// What went wrong on the way out, in our own words: refused, failed, timed out or too large.
import { AppError } from '../../errors.ts';

export function tooLarge(url: string, bytesMax: number): AppError {
  return new AppError('egressTooLarge', `${url} sent more than ${bytesMax} bytes.`, {
    hint: 'Ask for less, or raise the size limit of this kind of request.',
    data: { url, bytesMax },
  });
}

export function timedOut(url: string, phase: 'headers' | 'body' | 'total', ms: number): AppError {
  const what = { headers: 'did not answer', body: 'went silent for', total: 'was not done' }[phase];
  const within = phase === 'body' ? '' : ' within';
  return new AppError('timeout', `${url} ${what}${within} ${ms} ms.`, {
    data: { url, phase, timeoutMs: ms },
  });
}

export function failed(url: string, reason: string, detail: string, cause?: unknown): AppError {
  return new AppError('egressFailed', `${url} could not be fetched: ${detail}.`, {
    data: { url, reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** From what undici, the resolver or the socket said. */
export function failureOf(error: unknown, url: string, timeouts: Timeouts): Error {
  if (error instanceof AppError) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_HEADERS_TIMEOUT')
    return timedOut(url, 'headers', timeouts.headersTimeoutMs);
  if (code === 'UND_ERR_BODY_TIMEOUT') return timedOut(url, 'body', timeouts.bodyTimeoutMs);
  if (code === 'UND_ERR_INVALID_ARG') {
    return new AppError('invalidInput', `${url} cannot be requested: ${message}.`, {
      hint: 'Check the method and the headers.',
      cause: error,
    });
  }
  return failed(url, reasonOf(code), message, error);
}

export interface Timeouts {
  headersTimeoutMs: number;
  bodyTimeoutMs: number;
}

/** The other side closed a kept connection in the moment we used it: nothing was processed. */
export function isStale(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';
}

function reasonOf(code: string): string {
  if (/^(ENOTFOUND|EAI_|ENODATA)/.test(code)) return 'dns';
  if (/CERT|TLS|SSL|UNABLE_TO_|SELF_SIGNED/.test(code)) return 'tls';
  if (/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ETIMEDOUT)/.test(code))
    return 'connect';
  if (/^(HPE_|UND_ERR_RES|UND_ERR_HEADERS)/.test(code)) return 'protocol';
  return 'connection';
}
