// Calls of operations over HTTP with the session cookie. Errors are problems (RFC 9457) with a hint.
import { signal } from '@preact/signals';
import { urlOf } from './base.ts';
import { setServerTime } from './now.ts';

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | undefined;
  readonly data: Record<string, unknown>;

  constructor(status: number, body: Partial<Record<string, unknown>>) {
    super(typeof body.detail === 'string' ? body.detail : `The server responded with ${status}.`);
    this.status = status;
    this.code = typeof body.code === 'string' ? body.code : 'unknown';
    this.hint = typeof body.hint === 'string' ? body.hint : undefined;
    this.data = (body.data ?? {}) as Record<string, unknown>;
  }
}

/** True after a call was rejected because the session ended or never existed. */
export const isLoggedOut = signal(false);

type Input = Readonly<Record<string, unknown>>;

export const get = <T>(path: string, input: Input = {}, signal?: AbortSignal): Promise<T> =>
  request<T>('GET', `${path}${queryText(input)}`, undefined, signal);

export const post = <T>(path: string, input: Input = {}, signal?: AbortSignal): Promise<T> =>
  request<T>('POST', path, input, signal);

export const put = <T>(path: string, input: Input = {}): Promise<T> =>
  request<T>('PUT', path, input);

export const patch = <T>(path: string, input: Input = {}): Promise<T> =>
  request<T>('PATCH', path, input);

export const remove = <T>(path: string): Promise<T> => request<T>('DELETE', path, {});

/** An operation with the method of its route. */
export const call = (
  method: string,
  path: string,
  input: Input,
): Promise<Record<string, unknown>> => request(method, path, input);

export function queryText(input: Input): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** A response whose body is read in pieces. */
export async function open(
  path: string,
  accept: string,
  signal: AbortSignal,
  headers: Record<string, string> = {},
): Promise<Response> {
  const response = await fetch(urlOf(path), { headers: { accept, ...headers }, signal });
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function request<T>(
  method: string,
  path: string,
  body: Input | undefined,
  signal?: AbortSignal,
): Promise<T> {
  const response = await fetch(urlOf(path), {
    method,
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new Problem(0, {
      code: 'unreachable',
      detail: 'The server cannot be reached.',
      hint: 'It may be restarting. The dashboard continues when it is back.',
    });
  });
  const sentAt = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isNaN(sentAt)) setServerTime(sentAt);
  if (!response.ok) throw await problemOf(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function problemOf(response: Response): Promise<Problem> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  if (response.status === 401) isLoggedOut.value = true;
  return new Problem(response.status, body);
}

export function problemText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const hint = error instanceof Problem ? error.hint : undefined;
  return hint === undefined ? error.message : `${error.message} ${hint}`;
}
