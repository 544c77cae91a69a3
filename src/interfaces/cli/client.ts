// Calls operations of a running server, over the private socket of a home or over HTTP with a key.
import type http from 'node:http';
import {
  AppError,
  errorFromBody,
  registerErrors,
  type ErrorBody,
  type ErrorKind,
} from '../../errors.ts';
import type { Contract, InputOf, OutputOf, Origin } from '../../operation.ts';
import { nodeHttp, nodeHttps } from '../../runtime/packages.ts';
import { readLines } from '../../runtime/wire.ts';
import type { CallResponse, Catalog } from './operations-route.ts';
import { allowPrivateHeader } from './allow-private.ts';

export type Target = { socketPath: string } | { url: string; key: string | undefined };

interface FollowItem {
  event: string;
  data: unknown;
  id?: string;
}

export class Client {
  private readonly target: Target;
  private readonly origin: Origin | undefined;
  private readonly headers: Readonly<Record<string, string>>;

  constructor(target: Target, origin?: Origin, headers: Readonly<Record<string, string>> = {}) {
    this.target = target;
    this.origin = origin;
    this.headers = headers;
  }

  /** Returns a client whose calls may reach the private addresses they name. */
  allowingPrivate(): Client {
    return new Client(this.target, this.origin, { ...this.headers, [allowPrivateHeader]: '1' });
  }

  /** With `word`, only commands that start with it have full entries; this keeps the response small. */
  catalog(word?: string): Promise<Catalog> {
    const query = word === undefined ? '' : `?command=${encodeURIComponent(word)}`;
    return this.json('GET', `/internal/operations${query}`) as Promise<Catalog>;
  }

  health(
    signal?: AbortSignal,
  ): Promise<{ status: string; version: string } & Record<string, unknown>> {
    const response = this.json('GET', '/health', undefined, signal);
    return response as Promise<{ status: string; version: string }>;
  }

  /** With the type of a contract, the call is typed. The contract itself is not loaded: it would slow down every command. */
  async call<C extends Contract>(
    name: C['name'],
    input: InputOf<C>,
    signal?: AbortSignal,
  ): Promise<CallResponse<OutputOf<C>>> {
    return (await this.callNamed(name, input, signal)) as CallResponse<OutputOf<C>>;
  }

  /** For commands that are generated from operations. */
  async callNamed(name: string, input: unknown, signal?: AbortSignal): Promise<CallResponse> {
    const response = await this.json('POST', `/internal/operations/${name}`, input, signal);
    return response as CallResponse;
  }

  /** Returns what the call that started the job would return now. */
  async jobResult(jobId: string): Promise<CallResponse> {
    const path = `/internal/operations/?job=${encodeURIComponent(jobId)}`;
    return (await this.json('POST', path)) as CallResponse;
  }

  async *follow(name: string, input: unknown, signal?: AbortSignal): AsyncIterable<FollowItem> {
    const path = `/internal/operations/${name}?follow=true`;
    const response = await this.send('POST', path, input, signal);
    if (response.statusCode !== 200) throw await toError(response, this.target);
    response.setEncoding('utf8');
    for await (const line of readLines(readChunks(response, this.target))) {
      const item = JSON.parse(line) as FollowItem & Partial<ErrorResponse>;
      if (item.error) throw toAppError(item as ErrorResponse);
      yield item;
    }
  }

  private async json(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const response = await this.send(method, path, body, signal);
    if (response.statusCode !== 200) throw await toError(response, this.target);
    return JSON.parse(await text(response, this.target));
  }

  private send(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<http.IncomingMessage> {
    const { target } = this;
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      ...this.headers,
    };
    if (this.origin && 'socketPath' in target) {
      headers['x-errand-origin'] = Buffer.from(JSON.stringify(this.origin)).toString('base64url');
    }
    if ('url' in target && target.key) headers.authorization = `Bearer ${target.key}`;
    const options: http.RequestOptions = { method, path, headers, ...(signal ? { signal } : {}) };
    return new Promise((resolve, reject) => {
      const request =
        'socketPath' in target
          ? nodeHttp().request({ ...options, socketPath: target.socketPath }, resolve)
          : (target.url.startsWith('https:') ? nodeHttps() : nodeHttp()).request(
              new URL(path, target.url),
              options,
              resolve,
            );
      request.on('error', (error: NodeJS.ErrnoException) => reject(unreachable(error, target)));
      request.end(payload);
    });
  }
}

/** Reports a broken connection with the same error as a failed one. */
async function* readChunks(response: http.IncomingMessage, target: Target): AsyncIterable<string> {
  try {
    yield* response as AsyncIterable<string>;
  } catch (error) {
    throw unreachable(error as NodeJS.ErrnoException, target);
  }
}

export const isUnreachable = (error: unknown): boolean =>
  error instanceof AppError && error.code === 'unavailable' && error.data?.unreachable === true;

function unreachable(error: NodeJS.ErrnoException, target: Target): Error {
  if (error.name === 'AbortError') return error;
  const where = 'socketPath' in target ? 'the server of this home' : target.url;
  return new AppError('unavailable', `Cannot reach ${where}: ${error.code ?? error.message}.`, {
    hint: 'Check that it is running: `errand serve` starts it, `errand doctor` finds problems.',
    data: { unreachable: true },
    cause: error,
  });
}

interface ErrorResponse {
  error: ErrorBody;
  /** HTTP status and exit code of the error code, if the server sends them. */
  errorKind?: ErrorKind;
}

function toAppError({ error, errorKind }: ErrorResponse): AppError {
  if (errorKind) registerErrors({ [error.code]: errorKind });
  return errorFromBody(error);
}

async function toError(response: http.IncomingMessage, target: Target): Promise<Error> {
  const body = await text(response, target);
  try {
    const parsed = JSON.parse(body) as Partial<ErrorResponse> & {
      code?: string;
      detail?: string;
      hint?: string;
    };
    if (parsed.error) return toAppError(parsed as ErrorResponse);
    if (parsed.code) {
      return new AppError(
        parsed.code,
        parsed.detail ?? 'The server refused the request.',
        parsed.hint ? { hint: parsed.hint } : {},
      );
    }
  } catch {
    // Not a response of Errand: reported below.
  }
  const said = body.trim() === '' ? '' : `: ${body.trim().slice(0, 200)}`;
  const where = 'url' in target ? target.url : 'The server of this home';
  return new AppError(
    'unavailable',
    `${where} responded with HTTP ${response.statusCode}${said}`,
    'url' in target
      ? {
          hint: 'It does not seem to be an Errand server. Check ERRAND_URL and any proxy in between.',
        }
      : {},
  );
}

async function text(response: http.IncomingMessage, target: Target): Promise<string> {
  let all = '';
  response.setEncoding('utf8');
  for await (const chunk of readChunks(response, target)) all += chunk;
  return all;
}
