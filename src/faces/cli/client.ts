// Calls operations of a running server: over the home's private socket, or a URL with a key.
import http from 'node:http';
import https from 'node:https';
import {
  AppError,
  errorFromBody,
  registerErrors,
  type ErrorBody,
  type ErrorKind,
} from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import { linesOf } from '../../runtime/wire.ts';
import type { Answered, Catalog } from './bridge.ts';
import { allowPrivateHeader } from './permission.ts';

export type Target = { socketPath: string } | { url: string; key: string | undefined };

export interface FollowItem {
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

  /** The same with the owner's permission to reach private addresses that a call names. */
  allowingPrivate(): Client {
    return new Client(this.target, this.origin, { ...this.headers, [allowPrivateHeader]: '1' });
  }

  catalog(): Promise<Catalog> {
    return this.json('GET', '/internal/operations') as Promise<Catalog>;
  }

  health(
    signal?: AbortSignal,
  ): Promise<{ status: string; version: string } & Record<string, unknown>> {
    const answer = this.json('GET', '/health', undefined, signal);
    return answer as Promise<{ status: string; version: string }>;
  }

  async call<O = Record<string, unknown>>(
    name: string,
    input: unknown,
    signal?: AbortSignal,
  ): Promise<Answered<O>> {
    const answer = await this.json('POST', `/internal/operations/${name}`, input, signal);
    return answer as Answered<O>;
  }

  /** What the call that started the job would answer now. */
  async later(jobId: string): Promise<Answered> {
    const path = `/internal/operations/?job=${encodeURIComponent(jobId)}`;
    return (await this.json('POST', path)) as Answered;
  }

  async *follow(name: string, input: unknown, signal?: AbortSignal): AsyncIterable<FollowItem> {
    const path = `/internal/operations/${name}?follow=true`;
    const response = await this.send('POST', path, input, signal);
    if (response.statusCode !== 200) throw await failure(response, this.target);
    response.setEncoding('utf8');
    for await (const line of linesOf(unbroken(response, this.target))) {
      const item = JSON.parse(line) as FollowItem & Partial<ErrorAnswer>;
      if (item.error) throw thrown(item as ErrorAnswer);
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
    if (response.statusCode !== 200) throw await failure(response, this.target);
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
          ? http.request({ ...options, socketPath: target.socketPath }, resolve)
          : (target.url.startsWith('https:') ? https : http).request(
              new URL(path, target.url),
              options,
              resolve,
            );
      request.on('error', (error: NodeJS.ErrnoException) => reject(unreachable(error, target)));
      request.end(payload);
    });
  }
}

/** A connection that breaks in the middle is told like one that cannot be made. */
async function* unbroken(response: http.IncomingMessage, target: Target): AsyncIterable<string> {
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
    hint: 'Is it running? `errand serve` starts it; `errand doctor` looks for reasons.',
    data: { unreachable: true },
    cause: error,
  });
}

interface ErrorAnswer {
  error: ErrorBody;
  /** Of a server that says so: what the code means there. */
  errorKind?: ErrorKind;
}

function thrown({ error, errorKind }: ErrorAnswer): AppError {
  if (errorKind) registerErrors({ [error.code]: errorKind });
  return errorFromBody(error);
}

async function failure(response: http.IncomingMessage, target: Target): Promise<Error> {
  const body = await text(response, target);
  try {
    const parsed = JSON.parse(body) as Partial<ErrorAnswer> & {
      code?: string;
      detail?: string;
      hint?: string;
    };
    if (parsed.error) return thrown(parsed as ErrorAnswer);
    if (parsed.code) {
      return new AppError(
        parsed.code,
        parsed.detail ?? 'Refused.',
        parsed.hint ? { hint: parsed.hint } : {},
      );
    }
  } catch {
    // not ours: said below
  }
  return new AppError(
    'unavailable',
    `The server answered ${response.statusCode}: ${body.slice(0, 200)}`,
  );
}

async function text(response: http.IncomingMessage, target: Target): Promise<string> {
  let all = '';
  response.setEncoding('utf8');
  for await (const chunk of unbroken(response, target)) all += chunk;
  return all;
}
