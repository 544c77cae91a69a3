// One request from its first line to its answer: who calls, what they call, and the call itself. Everything that goes
// wrong is thrown as an AppError and answered in one place, the face.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { CallRate, DialectRequest, DialectResponse, DialectRoute } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import type { CallContext, Caller, Operation, Operations } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { drained, readBody, type BodyLimit } from '../../runtime/wire.ts';
import { jsonType, sendJson, sendText } from './answer.ts';
import { requestOrigin } from './credentials.ts';
import { checkJsonType, type InputShape, jsonBody, pathInput, queryInput } from './input.ts';
import type { HttpLimits } from './settings.ts';
import { bytesType, sendBytes } from './bytes.ts';
import { sendEvents } from './sse.ts';
import { sendMessages } from './websocket.ts';

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** GET for HEAD: Node leaves the body out by itself. */
  method: string;
  path: string;
  search: string;
  /** Came over the private socket. */
  local: boolean;
  caller: Caller | undefined;
  gone: AbortController;
  /** Where a limit holds for the caller. */
  rate?: CallRate;
  /** Has no end of its own: a stop ends it at once. */
  isStream: boolean;
  /** Ends it when its key does; undefined where no key was given. */
  watchKey?(): void;
  /** Counts it as an event stream of its caller; throws when the caller has too many. */
  countStream(): void;
  /** The connection of a client that wants a WebSocket; only for routes that have one. */
  upgraded?: Duplex;
}

export interface ExchangeParts {
  operations: Operations;
  limits: HttpLimits;
  clock: Clock;
  /** Aborted when the server stops: event streams end at once. */
  stopping: AbortSignal;
  publicUrl: string | undefined;
}

export async function answerOperation(
  exchange: Exchange,
  operation: Operation,
  shape: InputShape,
  params: Record<string, string>,
  parts: ExchangeParts,
): Promise<void> {
  const { request, response } = exchange;
  const input = await operationInput(exchange, shape, params, parts.limits);
  const context = contextOf(exchange);
  if (follows(exchange, input, shape)) {
    const last = request.headers['last-event-id'];
    if (typeof last === 'string' && last !== '')
      Object.assign(input, pathInput({ cursor: last }, shape));
    exchange.countStream();
    becomeStream(exchange, parts.stopping);
    const { signal } = exchange.gone;
    const items = parts.operations.stream(operation.name, input, context);
    if (accepts(exchange, bytesType)) return sendBytes(response, items, signal);
    const { clock, limits } = parts;
    const options = { clock, keepAliveMs: limits.sseKeepAliveMs, signal };
    return sendEvents(response, items, options);
  }
  sendJson(response, 200, await parts.operations.call(operation.name, input, context));
}

export async function answerDialect(
  exchange: Exchange,
  route: DialectRoute,
  params: Record<string, string>,
  parts: ExchangeParts,
): Promise<void> {
  const { request, caller, upgraded } = exchange;
  if (upgraded !== undefined) exchange.countStream();
  if (route.waits === true || upgraded !== undefined) becomeStream(exchange, parts.stopping);
  const body = upgraded
    ? Buffer.alloc(0)
    : await readBody(request, bodyLimit(exchange, parts.limits, route.bodyBytesMax));
  const dialectRequest: DialectRequest = {
    method: exchange.method,
    path: exchange.path,
    params,
    query: new URLSearchParams(exchange.search),
    headers: request.headers,
    body,
    json: () => jsonBody(body.toString('utf8')),
    caller,
    remoteAddress: request.socket.remoteAddress ?? '',
    baseUrl: baseUrl(exchange, parts.publicUrl),
    ...(exchange.rate ? { rate: exchange.rate } : {}),
  };
  const call = { operations: parts.operations, context: contextOf(exchange) };
  if (upgraded && route.watch)
    return sendMessages(request, upgraded, route.watch(dialectRequest, call), exchange.gone.signal);
  await sendDialect(exchange, await route.handle(dialectRequest, call));
}

/** From here on it has no end of its own. */
export function becomeStream(exchange: Exchange, stopping: AbortSignal): void {
  if (!exchange.isStream) exchange.watchKey?.();
  exchange.isStream = true;
  if (stopping.aborted) exchange.gone.abort();
}

export function contextOf({ caller, gone, local, request }: Exchange): CallContext {
  const origin = local ? requestOrigin(request) : undefined;
  return { caller, signal: gone.signal, ...(origin ? { origin } : {}) };
}

function baseUrl({ local, request }: Exchange, publicUrl: string | undefined): string {
  if (publicUrl) return publicUrl.replace(/\/$/, '');
  return local ? 'http://localhost' : `http://${request.headers.host}`;
}

/** Without a key only a small body is taken. */
export function bodyLimit(
  { caller }: Exchange,
  limits: HttpLimits,
  ownBytesMax = limits.bodyBytesMax,
): BodyLimit {
  if (caller || ownBytesMax <= limits.anonymousBodyBytesMax)
    return { bytesMax: ownBytesMax, setting: 'http.bodyBytesMax' };
  return { bytesMax: limits.anonymousBodyBytesMax, setting: 'http.anonymousBodyBytesMax' };
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
  const body = jsonBody(bytes.toString('utf8')) ?? {};
  if (typeof body !== 'object' || Array.isArray(body)) {
    throw new AppError('invalidInput', 'The body is JSON, but not an object.', {
      hint: 'Send the fields of the input as one JSON object.',
    });
  }
  return { ...fromQuery, ...body, ...fromPath };
}

const accepts = ({ request }: Exchange, type: string): boolean =>
  (request.headers.accept ?? '').includes(type);

/** `follow` belongs to this face unless the operation has a field of that name. */
function follows(exchange: Exchange, input: Record<string, unknown>, shape: InputShape): boolean {
  // Clients that take both (`application/json, text/event-stream`) get the plain answer.
  const isStreamType = accepts(exchange, 'text/event-stream') || accepts(exchange, bytesType);
  const isAsked = isStreamType && !accepts(exchange, 'json');
  if (shape.has('follow') || !('follow' in input)) return isAsked;
  const { follow } = input;
  delete input.follow;
  return isAsked || follow === true || follow === 'true' || follow === '1' || follow === '';
}

export async function sendDialect(exchange: Exchange, answer: DialectResponse): Promise<void> {
  const { response } = exchange;
  const { status, headers = {}, body, stream } = answer;
  if (stream) {
    response.writeHead(status, { 'cache-control': 'no-store', ...headers });
    for await (const chunk of stream) {
      if (response.destroyed) break;
      response.write(chunk);
      if (!(await drained(response))) break;
    }
    return void response.end();
  }
  if (body === undefined) return sendText(response, status, '', headers);
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
  sendJson(response, status, body, { 'content-type': jsonType, ...headers });
}
