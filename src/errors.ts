// Expected errors, meant for the caller: one table from code to HTTP status, exit code and retry advice.
// Programmer errors are not here: they throw plain Errors and reach the caller as `internal`, without detail.

export interface ErrorKind {
  http: number;
  exit: number;
  /** Whether the same call may succeed later without being changed. */
  retryable?: boolean;
}

const table = new Map<string, ErrorKind>(
  Object.entries({
    invalidInput: { http: 400, exit: 2 },
    unauthorized: { http: 401, exit: 3 },
    forbidden: { http: 403, exit: 3 },
    notFound: { http: 404, exit: 4 },
    methodNotAllowed: { http: 405, exit: 2 },
    notAcceptable: { http: 406, exit: 2 },
    conflict: { http: 409, exit: 5 },
    wrongState: { http: 409, exit: 5 },
    idempotencyConflict: { http: 409, exit: 5 },
    gone: { http: 410, exit: 5 },
    tooLarge: { http: 413, exit: 6 },
    unsupportedMediaType: { http: 415, exit: 2 },
    limitExceeded: { http: 429, exit: 6, retryable: true },
    rateLimited: { http: 429, exit: 6, retryable: true },
    policyRefused: { http: 403, exit: 3 },
    egressRefused: { http: 403, exit: 3 },
    egressFailed: { http: 502, exit: 7, retryable: true },
    egressTooLarge: { http: 502, exit: 6 },
    unsupported: { http: 501, exit: 7 },
    unavailable: { http: 503, exit: 7, retryable: true },
    timeout: { http: 504, exit: 7, retryable: true },
    internal: { http: 500, exit: 70, retryable: true },
  } satisfies Record<string, ErrorKind>),
);

/** A kind adds its own codes once, at start; a code means the same everywhere. */
export function registerErrors(codes: Record<string, ErrorKind>): void {
  for (const [code, kind] of Object.entries(codes)) table.set(code, kind);
}

export function errorKind(code: string): ErrorKind {
  return table.get(code) ?? { http: 500, exit: 70 };
}

export function errorTable(): [string, ErrorKind][] {
  return [...table].toSorted(([a], [b]) => a.localeCompare(b));
}

/** What the caller is told: what happened, why, and (hint) what to do next. */
export class AppError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  /** Facts a program may want: the job's id, the limit that was hit, seconds to wait. */
  readonly data: Record<string, unknown> | undefined;

  constructor(code: string, message: string, more: ErrorDetail = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'AppError';
    this.code = code;
    this.hint = more.hint;
    this.data = more.data;
  }
}

export interface ErrorDetail {
  hint?: string;
  data?: Record<string, unknown>;
  cause?: unknown;
}

export interface ErrorBody {
  code: string;
  message: string;
  hint?: string;
  data?: Record<string, unknown>;
  retryable: boolean;
}

/** The one place where an unknown throw becomes something a caller may see. */
export function errorBody(error: unknown): ErrorBody {
  if (!(error instanceof AppError)) {
    return {
      code: 'internal',
      message: 'An internal error happened.',
      hint: 'The cause is in the server log (`errand doctor` shows its tail).',
      retryable: true,
    };
  }
  return {
    code: error.code,
    message: error.message,
    ...(error.hint ? { hint: error.hint } : {}),
    ...(error.data ? { data: error.data } : {}),
    retryable: errorKind(error.code).retryable ?? false,
  };
}

/** What to do next where the error itself does not say: by its code, for those who read it at a face. */
const nextByCode = new Map(
  Object.entries({
    invalidInput: 'Mend what it names and send it again.',
    unauthorized: 'Send a key that is valid; `errand key create` makes one.',
    forbidden: 'Use a key that may; who runs the server makes it.',
    notFound: 'Check the id or the name; the list of such things shows what there is.',
    gone: 'It is no longer kept; only doing it again brings it back.',
    tooLarge: 'Send less, or ask for less at once.',
    unsupported: 'Leave it out, or take another way.',
  }),
);
const nextByStatus: Record<number, string> = {
  403: 'Who runs the server decides this, in its settings.',
  409: 'Look at its present state, and do what that state allows.',
};
const nextLater = 'Try again in a moment; if it stays so, look at the server (`errand doctor`).';
const nextElse = 'The same call will not succeed; change what it names.';

/** An error as a caller is told it: with what to do next, always. */
export function callerError(error: unknown): ErrorBody & { hint: string } {
  const body = errorBody(error);
  return { ...body, hint: body.hint ?? nextOf(body) };
}

export function nextOf({ code }: { code: string }): string {
  const { http, retryable } = errorKind(code);
  return nextByCode.get(code) ?? nextByStatus[http] ?? (retryable ? nextLater : nextElse);
}

/** The other way round: an error that came over a socket is thrown again as it was. */
export function errorFromBody(body: ErrorBody): AppError {
  return new AppError(body.code, body.message, {
    ...(body.hint ? { hint: body.hint } : {}),
    ...(body.data ? { data: body.data } : {}),
  });
}
