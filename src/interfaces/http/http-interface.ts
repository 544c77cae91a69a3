// The HTTP interface: routes from operations and dialects, mounted handlers (MCP, pages), and the rules that apply to all of
// them: host and origin checks, keys, rate limits, errors, and a stop that lets open requests finish.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dialect } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import type { CallContext, Caller, Operations } from '../../operation.ts';
import { byName } from '../../runtime/by-name.ts';
import type { Clock } from '../../runtime/clock.ts';
import { ClientDisconnected } from '../../runtime/disconnect.ts';
import type { Log } from '../../runtime/log.ts';
import { parseTraceparent, withTrace } from '../../runtime/trace.ts';
import { hasBody } from '../../runtime/wire.ts';
import { errorHeaders, keyRequired, sendProblem } from './problem.ts';
import { sendJson, sendText } from './response.ts';
import { requestKey } from './credentials.ts';
import {
  beginExchange,
  pathOf,
  serveDialect,
  serveOperation,
  becomeStream,
  toCallContext,
  sendDialect,
  type Credential,
  type Exchange,
  type ExchangeDeps,
} from './exchange.ts';
import { CallerLimits } from './caller-limits.ts';
import { corsHeaders, Guard } from './guard.ts';
import { watchKey } from './key-watch.ts';
import { Listeners, type TcpAddress, type UpgradeHandler } from './listeners.ts';
import { openApiDocument } from './openapi.ts';
import { buildRouter, unknownPath, wrongMethod, type Route } from './routes.ts';
import { SessionAuth } from './session-auth.ts';
import type { SessionAccess } from './session-routes.ts';
import type { RouteMatch, Router } from './router.ts';
import type { HttpLimits } from './settings.ts';
import { isWebSocket } from './websocket.ts';

export interface HttpInterfaceOptions {
  operations: Operations;
  dialects?: readonly Dialect[];
  /** Receives the bare key, regardless of the header that carried it. */
  authenticate(key: string): Promise<Caller | undefined> | Caller;
  sessions?: SessionAccess;
  /** Distinguishes the homes of one machine in the name of the session cookie. */
  cookieTag?: string;
  /** The caller of requests over the private socket. */
  owner: Caller;
  version: string;
  limits: HttpLimits;
  /** Additional host names and origins to allow, or `*`. */
  allowedHosts?: readonly string[];
  /** The URL that clients use when this server is behind a proxy. */
  publicUrl?: string;
  /** Fields added to the /health response. It requires no key, so nothing private belongs here. */
  health?(): Record<string, unknown>;
  clock: Clock;
  log: Log;
}

interface Mounted {
  caller: Caller | undefined;
  context: CallContext;
  /** The path below the prefix, always with a leading slash. */
  path: string;
  search: string;
  /** Must be called for an endless response: a stop then aborts its context immediately. */
  becomeStream(): void;
}

/** Returns false when the path belongs to another handler. */
type MountHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  mounted: Mounted,
) => Promise<boolean | void> | boolean | void;

interface MountOptions {
  /** `key` (default): callers with a key. `none`: everybody. `local`: private socket only. */
  auth?: 'key' | 'none' | 'local';
  /** Whether a path is a static file. Such requests are not counted by the rate limit of addresses. */
  isAsset?(path: string): boolean;
}

export interface HttpInterface {
  listenTcp(where: { port: number; host: string }): Promise<TcpAddress>;
  listenSocket(path: string): Promise<void>;
  mount(prefix: string, handler: MountHandler, options?: MountOptions): void;
  /** Handles private-socket connections that switch to another protocol (bridges). */
  onUpgrade(handler: UpgradeHandler): void;
  /** Number of open connections; an idle server uses it to stop itself. */
  connections(): number;
  stop(): Promise<void>;
}

type DocumentPart = Parameters<typeof openApiDocument>[1];

const documents: Readonly<Record<string, DocumentPart>> = byName({
  '/openapi.json': 'public',
  '/openapi-internal.json': 'internal',
});

interface Mount extends MountOptions {
  prefix: string;
  handler: MountHandler;
  auth: 'key' | 'none' | 'local';
}

export function createHttpInterface(options: HttpInterfaceOptions): HttpInterface {
  const httpInterface = new HttpInterfaceServer(options);
  return {
    listenTcp: (where) => httpInterface.listeners.tcp(where),
    listenSocket: (path) => httpInterface.listeners.socket(path),
    onUpgrade: (handler) => httpInterface.listeners.onUpgrade(handler),
    mount: (prefix, handler, { auth = 'key', ...more } = {}) =>
      httpInterface.mount({ prefix, handler, auth, ...more }),
    connections: () => httpInterface.listeners.connections(),
    stop: () => httpInterface.stop(),
  };
}

class HttpInterfaceServer {
  readonly listeners: Listeners;
  private readonly options: HttpInterfaceOptions;
  private readonly limits: HttpLimits;
  private readonly deps: ExchangeDeps;
  private readonly guard: Guard;
  private readonly callers: CallerLimits;
  private readonly sessions: SessionAuth | undefined;
  private readonly router: Router<Route>;
  private readonly active = new Set<Exchange>();
  private readonly stopping = new AbortController();
  private mounts: Mount[] = [];
  private readonly documents = new Map<DocumentPart, string>();
  private idle: (() => void) | undefined;

  constructor(options: HttpInterfaceOptions) {
    const { operations, dialects = [], clock, log, publicUrl } = options;
    this.options = options;
    this.limits = options.limits;
    const own = publicUrl ? [new URL(publicUrl).origin, new URL(publicUrl).hostname] : [];
    this.guard = new Guard([...(options.allowedHosts ?? []), ...own], own[0]);
    const { sessions, cookieTag: tag = '' } = options;
    this.sessions = sessions && new SessionAuth({ sessions, tag, publicUrl, clock });
    this.callers = new CallerLimits(this.limits, clock);
    this.router = buildRouter(operations, dialects);
    const stopping = this.stopping.signal;
    this.deps = {
      operations,
      limits: this.limits,
      clock,
      stopping,
      publicUrl,
      watchKey: (exchange) => this.watchKey(exchange),
      countStream: (exchange) => this.callers.countStream(exchange),
    };
    this.listeners = new Listeners({
      limits: this.limits,
      log,
      tcpConnections: this.callers.connections,
      handle: (...request) => this.handle(...request),
      allowsWebSocket: (request) => this.allowsWebSocket(request),
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
    const exchange = beginExchange(request, response, local, upgraded);
    this.active.add(exchange);
    const ended = this.callers.connections.begin(request.socket);
    response.on('close', () => {
      ended();
      if (!response.writableFinished) exchange.gone.abort(new ClientDisconnected());
      this.active.delete(exchange);
      if (this.active.size === 0) this.idle?.();
    });
    if (this.stopping.signal.aborted) response.setHeader('connection', 'close');
    const trace = parseTraceparent(request.headers.traceparent);
    withTrace(trace, () => this.serve(exchange)).catch((error: unknown) =>
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
    this.listeners.closeAll();
    await closed;
  }

  private async serve(exchange: Exchange): Promise<void> {
    const { response, path, method } = exchange;
    if (!path.startsWith('/')) throw new AppError('invalidInput', 'The request URL has no path.');
    if (!exchange.local && this.handlePreflight(exchange)) return;
    if (path === '/health' && method === 'GET') return this.sendHealth(response);
    const hasKey = await this.authenticate(exchange);
    if (!exchange.local) this.callers.check(exchange, !this.isAsset(path));
    const found = this.find(exchange);
    const route = found?.methods.get(method);
    if (route) return this.serveRoute(exchange, route, found!.params(method), hasKey);
    if (!exchange.local && (await this.sessions?.serve(exchange))) return;
    if (await this.serveMount(exchange)) return;
    if (Object.hasOwn(documents, path) && method === 'GET')
      return this.sendDocument(response, documents[path]!);
    if (!exchange.caller) throw keyRequired();
    throw found ? wrongMethod(method, path, found) : unknownPath(path);
  }

  /** Finds the caller by key, session or private socket. Returns whether the request has a key or a session. */
  private async authenticate(exchange: Exchange): Promise<boolean> {
    const { request, local } = exchange;
    const key = requestKey(request);
    const token = key === undefined && !local ? this.sessions?.tokenOf(exchange) : undefined;
    const credential = key ?? token;
    if (local && key === undefined) exchange.caller = this.options.owner;
    if (credential === undefined) return false;
    exchange.credential = { text: credential, isSession: token !== undefined };
    exchange.caller = await this.callerOf(exchange.credential);
    if (token !== undefined && !exchange.caller) this.sessions!.clear(exchange);
    return true;
  }

  private callerOf({ text, isSession }: Credential): Promise<Caller | undefined> | Caller {
    return isSession ? this.sessions!.authenticate(text) : this.options.authenticate(text);
  }

  private watchKey(exchange: Exchange): void {
    const { clock } = this.options;
    const credential = exchange.credential!;
    watchKey(exchange, { findCaller: async () => this.callerOf(credential), clock });
  }

  private isAsset(path: string): boolean {
    return this.mounts.some(({ isAsset }) => isAsset?.(path) === true);
  }

  private async serveRoute(
    exchange: Exchange,
    route: Route,
    params: Record<string, string>,
    hasKey: boolean,
  ): Promise<void> {
    if (route.type === 'dialect') {
      if (route.route.auth === 'key' && !exchange.caller) throw keyRequired();
      if (hasBody(exchange.request))
        await this.callers.reserveBody(exchange, route.route.maxBodyBytes);
      return serveDialect(exchange, route.route, params, this.deps);
    }
    const isOpen = route.operation.scope === 'public' && !hasKey;
    if (!exchange.caller && !isOpen) throw keyRequired();
    if (hasBody(exchange.request)) await this.callers.reserveBody(exchange);
    return serveOperation(exchange, route.operation, params, this.deps);
  }

  private async serveMount(exchange: Exchange): Promise<boolean> {
    const { path, request, response, local, caller, search } = exchange;
    for (const { prefix, handler, auth } of this.mounts) {
      const below = pathBelow(prefix, path);
      if (below === undefined || (auth === 'local' && !local)) continue;
      if (auth === 'key' && !caller) throw keyRequired();
      await this.callers.reserveBody(exchange, maxMountBodyBytes);
      const mounted: Mounted = {
        caller,
        context: toCallContext(exchange),
        path: below,
        search,
        becomeStream: () => {
          this.deps.countStream(exchange);
          becomeStream(exchange, this.deps);
        },
      };
      if ((await handler(request, response, mounted)) !== false) return true;
    }
    return false;
  }

  private sendHealth(response: ServerResponse): void {
    const isStopping = this.stopping.signal.aborted;
    const status = isStopping ? 'stopping' : 'ok';
    const more = this.options.health?.() ?? {};
    sendJson(response, isStopping ? 503 : 200, {
      status,
      version: this.options.version,
      ...more,
    });
  }

  /** Requires no key: the document contains no more than the public documentation. */
  private sendDocument(response: ServerResponse, part: DocumentPart): void {
    const { operations, version, dialects = [] } = this.options;
    let text = this.documents.get(part);
    if (text === undefined) {
      const { kinds } = operations;
      const source = { operations: operations.list(), version, dialects, kinds };
      text = JSON.stringify(openApiDocument(source, part));
      this.documents.set(part, text);
    }
    sendText(response, 200, text, { 'content-type': 'application/json' });
  }

  /** Checks host and origin. Responds to a CORS preflight of an allowed origin and returns true. */
  private handlePreflight(exchange: Exchange): boolean {
    const { request, response } = exchange;
    const { crossOrigin } = this.guard.check(request);
    if (!crossOrigin) return false;
    exchange.crossOrigin = crossOrigin;
    for (const [name, value] of Object.entries(corsHeaders(crossOrigin)))
      response.setHeader(name, value);
    if (request.method !== 'OPTIONS') return false;
    response.writeHead(204).end();
    return true;
  }

  private allowsWebSocket(request: IncomingMessage): boolean {
    if (!isWebSocket(request)) return false;
    try {
      const route = this.router.find(pathOf(request).path)?.methods.get('GET');
      return route?.type === 'dialect'
        ? route.route.watch !== undefined
        : route?.operation.stream !== undefined;
    } catch {
      return false;
    }
  }

  private find({ path, caller }: Exchange): RouteMatch<Route> | undefined {
    try {
      return this.router.find(path);
    } catch (error) {
      if (!(error instanceof URIError)) throw error;
      if (!caller) throw keyRequired();
      throw new AppError('invalidInput', 'The path contains an invalid percent escape.');
    }
  }

  private fail(exchange: Exchange, error: unknown): void {
    const { request, response, path, method } = exchange;
    if (!(error instanceof AppError) && !exchange.gone.signal.aborted)
      this.options.log.error('request failed', { method, path, error });
    // Unread body bytes would be parsed as the next request.
    const headers: Record<string, string> = request.complete ? {} : { connection: 'close' };
    const format = this.options.dialects?.find(
      ({ errors }) => errors && pathBelow(errors.prefix, path) !== undefined,
    )?.errors;
    if (!format) return sendProblem(response, error, headers);
    const dialectResponse = format.toResponse(error, path);
    const allHeaders = { ...errorHeaders(error), ...headers, ...dialectResponse.headers };
    void sendDialect(exchange, { ...dialectResponse, headers: allHeaders });
  }
}

/** Mounted handlers apply their own, lower limits. */
const maxMountBodyBytes = 32 * 1024 * 1024;

function pathBelow(prefix: string, path: string): string | undefined {
  const base = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix;
  if (path === base) return '/';
  return path.startsWith(`${base}/`) ? path.slice(base.length) : undefined;
}
