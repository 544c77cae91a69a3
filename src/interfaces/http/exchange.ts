// One request and its response: reads the input, calls the operation or the dialect, and sends the result. Failures are
// thrown as AppErrors; the HTTP interface turns them into responses in one place.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { CallRate, DialectRequest, DialectResponse, DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import type { CallContext, Caller, Operation, Operations } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { emptyBody, hasBody, readBody, waitForDrain, type BodyLimit } from '../../runtime/wire.ts';
import { sendJson, sendText } from './response.ts';
import { requestOrigin } from './credentials.ts';
import {
  checkJsonType,
  type InputShape,
  inputShape,
  jsonBody,
  pathInput,
  queryInput,
} from './input.ts';
import type { HttpLimits } from './settings.ts';
import { bytesType, sendBytes } from './bytes.ts';
import { sendEvents } from './sse.ts';
import { sendMessages } from './websocket.ts';
import { sendItems } from './websocket-items.ts';

/** What authenticated the request: a key, or the token of a session. */
export interface Credential {
  text: string;
  isSession: boolean;
}

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** GET for a HEAD request: Node omits the body itself. */
  method: string;
  path: string;
  search: string;
  /** The request came over the private socket. */
  local: boolean;
  caller: Caller | undefined;
  /** The page that sent the request, if it has another, allowed origin. */
  crossOrigin: string | undefined;
  /** Aborted when the client disconnects or the server ends a stream. */
  gone: AbortController;
  /** Set when the caller is rate limited. */
  rate: CallRate | undefined;
  /** The response is an endless stream: a stop ends it immediately. */
  isStream: boolean;
  credential: Credential | undefined;
  /** The connection of a client that requested a WebSocket; only set for routes that support it. */
  upgraded: Duplex | undefined;
}

export interface ExchangeDeps {
  operations: Operations;
  limits: HttpLimits;
  clock: Clock;
  /** Aborted when the server stops: event streams end immediately. */
  stopping: AbortSignal;
  publicUrl: string | undefined;
  /** Ends the response when the credential of its caller stops working. */
  watchKey(exchange: Exchange): void;
  /** Counts the response as an event stream of its caller; throws when the caller has too many. */
  countStream(exchange: Exchange): void;
}

export function beginExchange(
  request: IncomingMessage,
  response: ServerResponse,
  local: boolean,
  upgraded: Duplex | undefined,
): Exchange {
  const { path, search } = pathOf(request);
  return {
    request,
    response,
    method: request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET'),
    path,
    search,
    local,
    caller: undefined,
    credential: undefined,
    crossOrigin: undefined,
    rate: undefined,
    gone: new AbortController(),
    isStream: false,
    upgraded,
  };
}

export function pathOf({ url = '/' }: IncomingMessage): { path: string; search: string } {
  const mark = url.indexOf('?');
  return mark < 0
    ? { path: url, search: '' }
    : { path: url.slice(0, mark), search: url.slice(mark + 1) };
}

export async function serveOperation(
  exchange: Exchange,
  operation: Operation,
  params: Record<string, string>,
  deps: ExchangeDeps,
): Promise<void> {
  const { request, response } = exchange;
  const shape = inputShape(operation);
  const input = await operationInput(exchange, shape, params, deps.limits);
  const context = toCallContext(exchange);
  if (wantsStream(exchange, input, shape)) {
    const last = request.headers['last-event-id'];
    if (typeof last === 'string' && last !== '')
      Object.assign(input, pathInput({ cursor: last }, shape));
    deps.countStream(exchange);
    becomeStream(exchange, deps);
    const { signal } = exchange.gone;
    const items = deps.operations.stream(operation.name, input, context);
    if (exchange.upgraded) return sendItems(request, exchange.upgraded, items, { ...deps, signal });
    if (accepts(exchange, bytesType)) return sendBytes(response, items, signal);
    const { clock, limits } = deps;
    const options = { clock, keepAliveMs: limits.sseKeepAliveMs, signal };
    return sendEvents(response, items, options);
  }
  sendJson(response, 200, await deps.operations.call(operation.name, input, context));
}

export async function serveDialect(
  exchange: Exchange,
  route: DialectRoute,
  params: Record<string, string>,
  deps: ExchangeDeps,
): Promise<void> {
  const { request, caller, upgraded } = exchange;
  if (upgraded !== undefined) deps.countStream(exchange);
  if (route.waits === true || upgraded !== undefined) becomeStream(exchange, deps);
  const limit = bodyLimit(exchange, deps.limits, route.maxBodyBytes);
  const body = upgraded || !hasBody(request) ? emptyBody : await readBody(request, limit);
  const dialectRequest: DialectRequest = {
    method: exchange.method,
    path: exchange.path,
    params,
    query: new URLSearchParams(exchange.search),
    headers: request.headers,
    body,
    json: () => jsonBody(body),
    caller,
    remoteAddress: request.socket.remoteAddress ?? '',
    baseUrl: baseUrl(exchange, deps.publicUrl),
    ...(exchange.rate ? { rate: exchange.rate } : {}),
  };
  const call = { operations: deps.operations, context: toCallContext(exchange) };
  if (upgraded && route.watch)
    return sendMessages(request, upgraded, route.watch(dialectRequest, call), {
      signal: exchange.gone.signal,
    });
  return sendDialect(exchange, await route.handle(dialectRequest, call));
}

/** Marks the response as an endless stream. */
export function becomeStream(
  exchange: Exchange,
  { stopping, watchKey }: Pick<ExchangeDeps, 'stopping' | 'watchKey'>,
): void {
  if (!exchange.isStream && exchange.credential) watchKey(exchange);
  exchange.isStream = true;
  if (stopping.aborted) exchange.gone.abort();
}

export function toCallContext({ caller, gone, local, request }: Exchange): CallContext {
  const origin = local ? requestOrigin(request) : undefined;
  const key = request.headers['idempotency-key'] ?? request.headers['x-idempotency-key'];
  return {
    caller,
    signal: gone.signal,
    ...(origin ? { origin } : {}),
    ...(typeof key === 'string' && key !== '' ? { idempotencyKey: key } : {}),
  };
}

function baseUrl({ local, request }: Exchange, publicUrl: string | undefined): string {
  if (publicUrl) return publicUrl.replace(/\/$/, '');
  return local ? 'http://localhost' : `http://${request.headers.host}`;
}

/** Requests without a key may only send a small body. */
export function bodyLimit(
  { caller }: Exchange,
  limits: HttpLimits,
  maxOwnBytes = limits.maxBodyBytes,
): BodyLimit {
  if (caller || maxOwnBytes <= limits.maxAnonymousBodyBytes)
    return { maxBytes: maxOwnBytes, setting: 'http.maxBodyBytes' };
  return { maxBytes: limits.maxAnonymousBodyBytes, setting: 'http.maxAnonymousBodyBytes' };
}

async function operationInput(
  exchange: Exchange,
  shape: InputShape,
  params: Record<string, string>,
  limits: HttpLimits,
): Promise<Record<string, unknown>> {
  const { request, method, search } = exchange;
  const fromQuery = search === '' ? {} : queryInput(new URLSearchParams(search), shape);
  const fromPath = pathInput(params, shape);
  if (method === 'GET' || method === 'DELETE') return { ...fromQuery, ...fromPath };
  const bytes = await readBody(request, bodyLimit(exchange, limits));
  if (bytes.length === 0) return { ...fromQuery, ...fromPath };
  checkJsonType(request);
  const body = jsonBody(bytes) ?? {};
  if (typeof body !== 'object' || Array.isArray(body)) {
    throw new AppError('invalidInput', 'The request body is not a JSON object.', {
      hint: 'Send the input fields as one JSON object.',
    });
  }
  return { ...fromQuery, ...body, ...fromPath };
}

const accepts = ({ request }: Exchange, type: string): boolean =>
  (request.headers.accept ?? '').includes(type);

/** The query field `follow` is handled here unless the operation has a field with this name. */
function wantsStream(
  exchange: Exchange,
  input: Record<string, unknown>,
  shape: InputShape,
): boolean {
  if (exchange.upgraded) return true;
  // Clients that accept both (`application/json, text/event-stream`) get plain JSON.
  const isStreamType = accepts(exchange, 'text/event-stream') || accepts(exchange, bytesType);
  const prefersStream = isStreamType && !accepts(exchange, 'json');
  if (shape.has('follow') || !('follow' in input)) return prefersStream;
  const { follow } = input;
  delete input.follow;
  return prefersStream || follow === true || follow === 'true' || follow === '1' || follow === '';
}

/** Only a stream is not sent when this returns. */
export function sendDialect(
  { response }: Exchange,
  { status, headers, body, stream }: DialectResponse,
): Promise<void> | void {
  if (stream) {
    response.writeHead(status, { 'cache-control': 'no-store', ...headers });
    return sendStream(response, stream);
  }
  if (body === undefined) return sendText(response, status, '', headers ?? {});
  if (typeof body === 'string')
    return sendText(response, status, body, {
      'content-type': 'text/plain; charset=utf-8',
      ...headers,
    });
  if (body instanceof Uint8Array)
    return sendText(response, status, Buffer.from(body), {
      'content-type': 'application/octet-stream',
      ...headers,
    });
  sendJson(response, status, body, headers);
}

async function sendStream(
  response: ServerResponse,
  stream: AsyncIterable<string | Uint8Array>,
): Promise<void> {
  for await (const chunk of stream) {
    if (response.destroyed) break;
    response.write(chunk);
    if (!(await waitForDrain(response))) break;
  }
  response.end();
}
