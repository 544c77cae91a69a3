// The HTTP face: routes from the operation list and from dialects, mounted handlers (MCP, pages), and the rules that
// hold for all of them: host and origin, keys, rates, errors, and a stop that loses no answer.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dialect } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import type { CallContext, Caller, Operations } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { parseTraceparent, withTrace } from '../../runtime/trace.ts';
import { errorHeaders, keyNeeded, sendJson, sendProblem, sendText } from './answer.ts';
import { requestKey } from './credentials.ts';
import {
  answerDialect,
  answerOperation,
  becomeStream,
  contextOf,
  sendDialect,
  type Exchange,
  type ExchangeParts,
} from './exchange.ts';
import { CallerLimits } from './caller-limits.ts';
import { corsHeaders, Guard } from './guard.ts';
import { watchKey } from './key-watch.ts';
import { Listeners, type TcpAddress, type UpgradeHandler } from './listeners.ts';
import { openApiDocument } from './openapi.ts';
import { buildRouter, type Route } from './routes.ts';
import type { Found, Router } from './router.ts';
import type { HttpLimits } from './settings.ts';
import { isWebSocket } from './websocket.ts';

export interface HttpFaceOptions {
  operations: Operations;
  dialects?: readonly Dialect[];
  /** Takes the bare key, whichever header it came in. */
  authenticate(key: string): Promise<Caller | undefined>;
  /** Who calls over the private socket. */
  owner: Caller;
  version: string;
  limits: HttpLimits;
  /** Host names beyond this machine's own, allowed origins, or `*`. */
  allowedHosts?: readonly string[];
  /** How clients reach this server, when a proxy stands before it. */
  publicUrl?: string;
  /** Added to the answer of /health. Nothing private: it needs no key. */
  health?(): Record<string, unknown>;
  clock: Clock;
  log: Log;
}

export interface Mounted {
  caller: Caller | undefined;
  context: CallContext;
  /** The path below the prefix, always with a leading slash. */
  path: string;
  search: string;
  /** To be called for an answer without an end of its own: a stop then aborts its context at once. */
  becomeStream(): void;
}

/** `false`: not its path after all; the search goes on. */
export type MountHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  mounted: Mounted,
) => Promise<boolean | void> | boolean | void;

export interface MountOptions {
  /** `key` (default): only callers with a key get there. `none`: everybody. `local`: private socket only. */
  auth?: 'key' | 'none' | 'local';
}

export interface HttpFace {
  listenTcp(where: { port: number; host: string }): Promise<TcpAddress>;
  listenSocket(path: string): Promise<void>;
  mount(prefix: string, handler: MountHandler, options?: MountOptions): void;
  /** Connections of the private socket that change to another protocol (the fronts). */
  onUpgrade(handler: UpgradeHandler): void;
  /** Open connections, for a server that ends when nobody needs it. */
  connections(): number;
  stop(): Promise<void>;
}

interface Mount {
  prefix: string;
  handler: MountHandler;
  auth: 'key' | 'none' | 'local';
}

export function createHttpFace(options: HttpFaceOptions): HttpFace {
  const face = new Face(options);
  return {
    listenTcp: (where) => face.listeners.tcp(where),
    listenSocket: (path) => face.listeners.socket(path),
    onUpgrade: (handler) => face.listeners.onUpgrade(handler),
    mount: (prefix, handler, { auth = 'key' } = {}) => face.mount({ prefix, handler, auth }),
    connections: () => face.listeners.connections(),
    stop: () => face.stop(),
  };
}

class Face {
  readonly listeners: Listeners;
  private readonly options: HttpFaceOptions;
  private readonly limits: HttpLimits;
  private readonly parts: ExchangeParts;
  private readonly guard: Guard;
  private readonly callers: CallerLimits;
  private readonly router: Router<Route>;
  private readonly active = new Set<Exchange>();
  private readonly stopping = new AbortController();
  private mounts: Mount[] = [];
  private document: string | undefined;
  private idle: (() => void) | undefined;

  constructor(options: HttpFaceOptions) {
    const { operations, dialects = [], clock, log, publicUrl } = options;
    this.options = options;
    this.limits = options.limits;
    const own = publicUrl ? [new URL(publicUrl).origin, new URL(publicUrl).hostname] : [];
    this.guard = new Guard([...(options.allowedHosts ?? []), ...own]);
    this.callers = new CallerLimits(this.limits, clock);
    this.router = buildRouter(operations, dialects);
    const stopping = this.stopping.signal;
    this.parts = { operations, limits: this.limits, clock, stopping, publicUrl };
    this.listeners = new Listeners({
      limits: this.limits,
      log,
      held: this.callers.connections,
      handle: (...wish) => this.handle(...wish),
      watches: (request) => this.watches(request),
    });
  }

  mount(mount: Mount): void {
    const isLonger = (a: Mount, b: Mount) => b.prefix.length - a.prefix.length;
    this.mounts = [...this.mounts, mount].toSorted(isLonger);
  }

  handle(
    request: IncomingMessage,
    response: ServerResponse,
    local: boolean,
    upgraded?: Duplex,
  ): void {
    const exchange: Exchange = {
      ...begin(request, response, local),
      ...(upgraded ? { upgraded } : {}),
      countStream: () => this.callers.countStream(exchange),
    };
    this.active.add(exchange);
    const ended = this.callers.connections.begin(request.socket);
    response.on('close', () => {
      ended();
      if (!response.writableFinished) exchange.gone.abort();
      this.active.delete(exchange);
      if (this.active.size === 0) this.idle?.();
    });
    if (this.stopping.signal.aborted) response.setHeader('connection', 'close');
    const trace = parseTraceparent(request.headers.traceparent);
    withTrace(trace, () => this.answer(exchange)).catch((error: unknown) =>
      this.fail(exchange, error),
    );
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    for (const { isStream, gone } of this.active) if (isStream) gone.abort();
    const closed = this.listeners.close();
    const { clock } = this.options;
    const limit = new AbortController();
    if (this.active.size > 0) {
      const quiet = new Promise<void>((resolve) => (this.idle = resolve));
      await Promise.race([quiet, clock.sleep(this.limits.stopTimeoutMs, limit.signal)]);
    }
    limit.abort();
    for (const { gone } of this.active) gone.abort();
    this.listeners.cut();
    await closed;
  }

  private async answer(exchange: Exchange): Promise<void> {
    const { request, response, path, method } = exchange;
    if (!path.startsWith('/')) throw new AppError('invalidInput', 'The request has no path.');
    if (!exchange.local && this.isPreflight(exchange)) return;
    if (path === '/health' && method === 'GET') return this.answerHealth(response);
    const key = requestKey(request);
    if (key !== undefined) {
      exchange.caller = await this.options.authenticate(key);
      exchange.watchKey = () => watchKey(exchange, key, this.options);
    }
    if (key === undefined && exchange.local) exchange.caller = this.options.owner;
    if (!exchange.local) this.callers.check(exchange);
    const found = this.find(exchange);
    const route = found?.methods.get(method);
    if (route) return this.answerRoute(exchange, route, found!.params(method), key !== undefined);
    if (await this.answerMount(exchange)) return;
    if (!exchange.caller) throw keyNeeded();
    if (path === '/openapi.json' && method === 'GET') return this.answerDocument(response);
    throw found ? wrongMethod(method, path, found) : unknownPath(path);
  }

  private async answerRoute(
    exchange: Exchange,
    route: Route,
    params: Record<string, string>,
    hasKey: boolean,
  ): Promise<void> {
    if (route.type === 'dialect') {
      if (route.route.auth === 'key' && !exchange.caller) throw keyNeeded();
      await this.callers.reserveBody(exchange, route.route.bodyBytesMax);
      return answerDialect(exchange, route.route, params, this.parts);
    }
    const isOpen = route.operation.scope === 'public' && !hasKey;
    if (!exchange.caller && !isOpen) throw keyNeeded();
    await this.callers.reserveBody(exchange);
    return answerOperation(exchange, route.operation, route.shape, params, this.parts);
  }

  private async answerMount(exchange: Exchange): Promise<boolean> {
    const { path, request, response, local, caller, search } = exchange;
    for (const { prefix, handler, auth } of this.mounts) {
      const below = pathBelow(prefix, path);
      if (below === undefined || (auth === 'local' && !local)) continue;
      if (auth === 'key' && !caller) throw keyNeeded();
      await this.callers.reserveBody(exchange, mountBodyBytesMax);
      const mounted: Mounted = {
        caller,
        context: contextOf(exchange),
        path: below,
        search,
        becomeStream: () => {
          exchange.countStream();
          becomeStream(exchange, this.stopping.signal);
        },
      };
      if ((await handler(request, response, mounted)) !== false) return true;
    }
    return false;
  }

  private answerHealth(response: ServerResponse): void {
    const isStopping = this.stopping.signal.aborted;
    const status = isStopping ? 'stopping' : 'ok';
    const more = this.options.health?.() ?? {};
    sendJson(response, isStopping ? 503 : 200, {
      status,
      version: this.options.version,
      ...more,
    });
  }

  private answerDocument(response: ServerResponse): void {
    const { operations, version, dialects } = this.options;
    this.document ??= JSON.stringify(openApiDocument(operations.list(), version, dialects));
    sendText(response, 200, this.document, { 'content-type': 'application/json' });
  }

  /** Checks host and origin on the way; a preflight of an allowed origin is answered here. */
  private isPreflight({ request, response }: Exchange): boolean {
    const { crossOrigin } = this.guard.check(request);
    if (!crossOrigin) return false;
    for (const [name, value] of Object.entries(corsHeaders(crossOrigin)))
      response.setHeader(name, value);
    if (request.method !== 'OPTIONS') return false;
    response.writeHead(204).end();
    return true;
  }

  private watches(request: IncomingMessage): boolean {
    if (!isWebSocket(request)) return false;
    try {
      const route = this.router.find(pathOf(request).path)?.methods.get('GET');
      return route?.type === 'dialect' && route.route.watch !== undefined;
    } catch {
      return false;
    }
  }

  private find({ path, caller }: Exchange): Found<Route> | undefined {
    try {
      return this.router.find(path);
    } catch (error) {
      if (!(error instanceof URIError)) throw error;
      if (!caller) throw keyNeeded();
      throw new AppError('invalidInput', 'The path holds a broken percent escape.');
    }
  }

  private fail(exchange: Exchange, error: unknown): void {
    const { request, response, path, method } = exchange;
    if (!(error instanceof AppError) && !exchange.gone.signal.aborted)
      this.options.log.error('a request failed', { method, path, error });
    // What was not read would be taken for the next request.
    const headers: Record<string, string> = request.complete ? {} : { connection: 'close' };
    const form = this.options.dialects?.find(
      ({ errors }) => errors && pathBelow(errors.prefix, path) !== undefined,
    )?.errors;
    if (!form) return sendProblem(response, error, headers);
    const answer = form.answer(error, path);
    const all = { ...errorHeaders(error), ...headers, ...answer.headers };
    void sendDialect(exchange, { ...answer, headers: all });
  }
}

/** Mounted handlers have limits of their own below this. */
const mountBodyBytesMax = 32 * 1024 * 1024;

function begin(
  request: IncomingMessage,
  response: ServerResponse,
  local: boolean,
): Omit<Exchange, 'countStream'> {
  return {
    request,
    response,
    method: request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET'),
    ...pathOf(request),
    local,
    caller: undefined,
    gone: new AbortController(),
    isStream: false,
  };
}

function pathOf({ url = '/' }: IncomingMessage): { path: string; search: string } {
  const mark = url.indexOf('?');
  return mark < 0
    ? { path: url, search: '' }
    : { path: url.slice(0, mark), search: url.slice(mark + 1) };
}

function pathBelow(prefix: string, path: string): string | undefined {
  const base = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix;
  if (path === base) return '/';
  return path.startsWith(`${base}/`) ? path.slice(base.length) : undefined;
}

function wrongMethod(method: string, path: string, found: Found<Route>): AppError {
  const allow = [...found.methods.keys()].toSorted();
  return new AppError('methodNotAllowed', `${path} does not take ${method}.`, {
    hint: `It takes ${allow.join(', ')}.`,
    data: { allow },
  });
}

function unknownPath(path: string): AppError {
  return new AppError('notFound', `There is no route ${path}.`, {
    hint: 'GET /openapi.json lists every route.',
  });
}
