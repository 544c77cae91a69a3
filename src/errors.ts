// Errors for callers. One table maps each code to an HTTP status, an exit code and whether a retry can help.
// Programming errors are plain Errors. Callers see them as `internal`, without details.

export interface ErrorKind {
  http: number;
  exit: number;
  /** Whether the same call may succeed later. */
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

/** Adds a kind's error codes at start. */
export function registerErrors(codes: Record<string, ErrorKind>): void {
  for (const [code, kind] of Object.entries(codes)) table.set(code, kind);
}

export function errorKind(code: string): ErrorKind {
  return table.get(code) ?? { http: 500, exit: 70 };
}

export function errorTable(): [string, ErrorKind][] {
  return [...table].toSorted(([a], [b]) => a.localeCompare(b));
}

/** An error for the caller: what happened and why (message), and what to do next (hint). */
export class AppError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  /** Details for programs: the job id, the exceeded limit, the time to wait. */
  readonly data: Record<string, unknown> | undefined;

  constructor(code: string, message: string, more: ErrorDetail = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'AppError';
    this.code = code;
    this.hint = more.hint;
    this.data = more.data;
  }
}

interface ErrorDetail {
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

/** Converts any thrown value to what a caller may see. */
export function errorBody(error: unknown): ErrorBody {
  if (!(error instanceof AppError)) {
    return {
      code: 'internal',
      message: 'An internal error occurred.',
      hint: 'The server log has the cause. `errand doctor` shows its end.',
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

/** The default hint per code, for errors without a hint. */
const nextByCode = new Map(
  Object.entries({
    invalidInput: 'Correct the named fields and send the request again.',
    unauthorized: 'Send a valid key. Create one with `errand key create`.',
    forbidden: 'Use a key that allows it. The operator of the server can create one.',
    notFound: 'Check the id or name. The list operation shows what exists.',
    gone: 'It has been deleted. Run the job again to get it back.',
    tooLarge: 'Send or request less per call.',
    unsupported: 'Remove the unsupported option, or use another operation.',
  }),
);
const nextByStatus: Record<number, string> = {
  403: 'The operator of the server controls this in its settings.',
  409: 'Check its current state, and do what that state allows.',
};
const nextLater = 'Try again shortly. If the error persists, run `errand doctor`.';
const nextElse = 'Repeating the call will not help. Change the request.';

/** The error for a caller, always with a hint. */
export function callerError(error: unknown): ErrorBody & { hint: string } {
  const body = errorBody(error);
  return { ...body, hint: body.hint ?? nextOf(body) };
}

export function nextOf({ code }: { code: string }): string {
  const { http, retryable } = errorKind(code);
  return nextByCode.get(code) ?? nextByStatus[http] ?? (retryable ? nextLater : nextElse);
}

/** The inverse of `errorBody`, for errors received over a socket. */
export function errorFromBody(body: ErrorBody): AppError {
  return new AppError(body.code, body.message, {
    ...(body.hint ? { hint: body.hint } : {}),
    ...(body.data ? { data: body.data } : {}),
  });
}
