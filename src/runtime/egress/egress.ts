// All outgoing requests. Each one declares how far its destination is trusted. A guarded one is checked against the
// addresses it actually connects to, again at every redirect, and everything has a limit.
import { isIP, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { AppError } from '../../errors.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { EgressBody } from './body.ts';
import { Connector, type Resolve } from './connector.ts';
import { acceptEncoding, decoders } from './decode.ts';
import { abortError, failed, toFailure, isStale, timedOut, tooLarge } from './failure.ts';
import { type EgressPolicy, Policy, refusal, type Trust } from './policy.ts';
import type { PoolLimits, Pools } from './pools.ts';
import { credentialsHeader, nextHop, type Hop } from './redirect.ts';
import { openSocket, trustsCertificate, type SocketRequest } from './sockets.ts';
import { type Head, Transfer } from './transfer.ts';

export interface EgressLimits extends PoolLimits {
  headersTimeoutMs: number;
  /** Maximum silence between two chunks of a body. */
  bodyTimeoutMs: number;
  /** The whole request including redirects, until the last byte is read. */
  timeoutMs: number;
  maxBytes: number;
  maxRedirects: number;
}

export const egressLimits: EgressLimits = {
  connectTimeoutMs: 10_000,
  headersTimeoutMs: 30_000,
  bodyTimeoutMs: 30_000,
  timeoutMs: 60_000,
  maxBytes: 10 * 1024 * 1024,
  maxRedirects: 5,
  maxConnectionsPerOrigin: 64,
  keepAliveMs: 4000,
  maxHeaderBytes: 64 * 1024,
};

export interface EgressOptions {
  policy: EgressPolicy;
  clock: Clock;
  log: Log;
  limits?: Partial<EgressLimits>;
  userAgent?: string;
  /** Replaces the system resolver. */
  resolve?: Resolve;
  /** Additional certificates (PEM) to trust. */
  ca?: string;
}

export interface EgressRequest {
  url: string | URL;
  method?: string;
  headers?: Record<string, string>;
  /** A stream cannot be sent twice, so a redirect that requires the body again fails. */
  body?: string | Buffer | AsyncIterable<Uint8Array>;
  trust: Trust;
  /** Uses a new connection. For requests that must not be sent twice: a stale connection cannot lose them. */
  fresh?: boolean;
  /** Called when the first byte is about to be sent. A request that failed earlier was never sent. */
  onSent?(): void;
  signal?: AbortSignal;
  /** How many redirects are followed; 0 returns the redirect itself. */
  redirects?: number;
  maxBytes?: number;
  /** 0: no total limit (for followed streams); bodyTimeoutMs still limits silence. */
  timeoutMs?: number;
  headersTimeoutMs?: number;
  bodyTimeoutMs?: number;
  /** False: returns bytes and headers unchanged. */
  decompress?: boolean;
}

export interface EgressResponse {
  status: number;
  headers: Head['headers'];
  /** The last URL, after redirects. */
  url: string;
  redirects: { status: number; url: string }[];
  remoteAddress: string;
  body: EgressBody;
}

export interface Egress {
  request(request: EgressRequest): Promise<EgressResponse>;
  /** Opens a plain TCP connection under the same rules. */
  connect(to: SocketRequest): Promise<Socket>;
  /**
   * Whether the operator trusts the certificate of this URL's host, which no authority signed. For clients that check
   * certificates themselves (browsers). Undefined if the operator trusts none.
   */
  trustsCertificate: ((url: string) => Promise<boolean>) | undefined;
  /** Throws for a guarded URL that is refused regardless of DNS. Call it before storing a URL for later use. */
  check(url: string): void;
  /**
   * Returns an egress whose guarded requests may also reach these hosts (`host:port`). It has its own connections, which
   * never serve other requests. The caller closes it.
   */
  allowing(hosts: readonly string[]): Egress;
  close(): Promise<void>;
}

export function createEgress(options: EgressOptions): Egress {
  const limits = { ...egressLimits, ...options.limits };
  const { clock, resolve, ca } = options;
  const policy = new Policy(options.policy);
  const connector = new Connector({
    policy,
    clock,
    ...(resolve ? { resolve } : {}),
    ...(ca ? { ca } : {}),
  });
  const client = new EgressClient(connector, limits, options);
  return {
    request: (request) => client.request(request),
    connect: (to) => openSocket(connector, limits, { ...to, tls: false }),
    trustsCertificate: policy.trustsCertificates
      ? (url) => trustsCertificate(policy, connector, limits, new URL(url))
      : undefined,
    check: (url) => checkLiteral(policy, new URL(url)),
    allowing: (hosts) =>
      createEgress({
        ...options,
        policy: { ...options.policy, allow: [...options.policy.allow, ...hosts] },
      }),
    close: () => client.close(),
  };
}

/** Names are resolved on use. Only a literal address or localhost can be checked beforehand. */
function checkLiteral(policy: Policy, { hostname, port, protocol }: URL): void {
  const host = hostname.replace(/^\[|\]$/g, '');
  const isOwn = /^(.+\.)?localhost\.?$/.test(host);
  if (isIP(host) === 0 && !isOwn) return;
  policy.check(
    host,
    Number(port) || (protocol === 'https:' ? 443 : 80),
    isOwn ? '127.0.0.1' : host,
  );
}

/** The state of one request across all its hops. */
interface Exchange {
  request: EgressRequest;
  pools: Pools;
  maxBytes: number;
  timeouts: { headersTimeoutMs: number; bodyTimeoutMs: number; timeoutMs: number };
  current: Transfer | undefined;
  /** The transfer whose response was returned. */
  final: Transfer | undefined;
  /** Removes the timer and the abort listener. */
  done(): void;
}

class EgressClient {
  private readonly connector: Connector;
  private readonly limits: EgressLimits;
  private readonly options: EgressOptions;
  private poolsPromise: Promise<Pools> | undefined;

  constructor(connector: Connector, limits: EgressLimits, options: EgressOptions) {
    this.connector = connector;
    this.limits = limits;
    this.options = options;
  }

  async close(): Promise<void> {
    await (await this.poolsPromise)?.close();
  }

  /** Created by the first request, so that a server that fetches nothing does not load the HTTP client. */
  private pools(): Promise<Pools> {
    this.poolsPromise ??= import('./pools.ts').then(
      ({ Pools }) => new Pools(this.connector, this.limits),
    );
    return this.poolsPromise;
  }

  async request(request: EgressRequest): Promise<EgressResponse> {
    request.signal?.throwIfAborted();
    let hop = this.firstHop(request);
    const pools = await this.pools();
    const exchange = this.begin(request, hop.url.href, pools);
    const redirects: EgressResponse['redirects'] = [];
    const maxRedirects = request.redirects ?? this.limits.maxRedirects;
    try {
      for (;;) {
        const { transfer, head } = await this.send(exchange, hop);
        const next = maxRedirects === 0 ? undefined : nextHop(hop, head);
        if (!next) return this.response(exchange, hop, transfer, { ...head, redirects });
        transfer.discard();
        redirects.push({ status: head.status, url: hop.url.href });
        if (redirects.length > maxRedirects)
          throw failed(hop.url.href, 'redirects', `more than ${maxRedirects} redirects`);
        checkScheme(next.url);
        hop = next;
      }
    } catch (error) {
      exchange.done();
      throw error;
    }
  }

  private firstHop(request: EgressRequest): Hop {
    const url = parseUrl(request.url);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(request.headers ?? {}))
      headers[name.toLowerCase()] = value;
    headers['user-agent'] ??= this.options.userAgent ?? 'errand';
    headers.accept ??= '*/*';
    if (request.decompress !== false) headers['accept-encoding'] ??= acceptEncoding;
    // A Host header chosen by the caller, sent to an address chosen by the caller, would bypass both checks.
    if (request.trust === 'guarded') delete headers.host;
    const credentials = credentialsHeader(url);
    if (credentials) headers.authorization ??= credentials;
    const { method = 'GET', body, trust } = request;
    return { url, method: method.toUpperCase(), headers, body, trust };
  }

  private begin(request: EgressRequest, url: string, pools: Pools): Exchange {
    const { headersTimeoutMs, bodyTimeoutMs, timeoutMs, maxBytes } = {
      ...this.limits,
      ...pickDefined(request),
    };
    const exchange: Exchange = {
      request,
      pools,
      maxBytes,
      timeouts: { headersTimeoutMs, bodyTimeoutMs, timeoutMs },
      current: undefined,
      final: undefined,
      done: () => {
        stopTimer();
        request.signal?.removeEventListener('abort', onAbort);
      },
    };
    const onAbort = () => exchange.current?.fail(abortError(request.signal));
    request.signal?.addEventListener('abort', onAbort, { once: true });
    const expire = () => exchange.current?.fail(timedOut(url, 'total', timeoutMs));
    const stopTimer = timeoutMs > 0 ? this.options.clock.after(timeoutMs, expire) : () => {};
    return exchange;
  }

  private async send(exchange: Exchange, hop: Hop): Promise<{ transfer: Transfer; head: Head }> {
    const url = hop.url.href;
    for (let attempt = 1; ; attempt++) {
      const transfer = this.start(exchange, hop);
      try {
        return { transfer, head: await transfer.head };
      } catch (error) {
        const isReused = (transfer.peer?.used ?? 0) > 1;
        const isSafe = hop.body === undefined && (hop.method === 'GET' || hop.method === 'HEAD');
        if (attempt === 1 && isReused && isSafe && isStale(error)) continue;
        throw explainError(error, url, exchange);
      }
    }
  }

  private start(exchange: Exchange, hop: Hop): Transfer {
    const { maxBytes, timeouts, request, pools } = exchange;
    const url = hop.url.href;
    const options = {
      maxBytes,
      tooLarge: () => tooLarge(url, maxBytes),
      onStart: () => request.onSent?.(),
    };
    const transfer: Transfer = new Transfer(options, () => {
      if (exchange.final === transfer) exchange.done();
    });
    exchange.current = transfer;
    if (request.signal?.aborted) {
      transfer.fail(abortError(request.signal));
      return transfer;
    }
    try {
      const route = { trust: hop.trust, fresh: request.fresh === true };
      pools.dispatch(route, dispatchOptions(hop, timeouts), transfer);
    } catch (error) {
      transfer.fail(error as Error);
    }
    return transfer;
  }

  private response(
    exchange: Exchange,
    hop: Hop,
    transfer: Transfer,
    { status, headers, redirects }: Head & Pick<EgressResponse, 'redirects'>,
  ): EgressResponse {
    const { request, maxBytes } = exchange;
    const url = hop.url.href;
    if (hop.method !== 'HEAD' && Number(headers['content-length']) > maxBytes) {
      const error = tooLarge(url, maxBytes);
      transfer.fail(error);
      throw error;
    }
    exchange.final = transfer;
    if (transfer.isSettled) exchange.done();
    const isDecoded = request.decompress !== false && hop.method !== 'HEAD';
    const chain = (isDecoded ? decoders(headers['content-encoding']) : undefined) ?? [];
    if (chain.length > 0) {
      delete headers['content-encoding'];
      delete headers['content-length'];
    }
    const explain = (error: unknown) => explainError(error, url, exchange);
    const body = new EgressBody(transfer, { url, maxBytes, chain, explain });
    const remoteAddress = transfer.peer?.address ?? '';
    return { status, headers, url, redirects, remoteAddress, body };
  }
}

/** An aborted caller gets its own abort reason. */
function explainError(error: unknown, url: string, { request, timeouts }: Exchange): Error {
  if (request.signal?.aborted) return abortError(request.signal);
  return toFailure(error, url, timeouts);
}

function dispatchOptions(hop: Hop, timeouts: Exchange['timeouts']): Dispatcher.DispatchOptions {
  const { url, method, headers, body } = hop;
  return {
    origin: url.origin,
    path: url.pathname + url.search,
    method,
    headers,
    headersTimeout: timeouts.headersTimeoutMs,
    bodyTimeout: timeouts.bodyTimeoutMs,
    ...(body === undefined ? {} : { body: toDispatchBody(body) }),
  };
}

function toDispatchBody(body: NonNullable<EgressRequest['body']>): string | Buffer | Readable {
  return typeof body === 'string' || Buffer.isBuffer(body) ? body : Readable.from(body);
}

function parseUrl(input: string | URL): URL {
  let url: URL;
  try {
    url = new URL(input);
  } catch {
    throw new AppError('invalidInput', `${String(input).slice(0, 200)} is not a URL.`, {
      hint: 'Use an absolute URL: https://example.com/path.',
    });
  }
  checkScheme(url);
  return url;
}

function checkScheme({ protocol, href }: URL): void {
  if (protocol === 'http:' || protocol === 'https:') return;
  throw refusal(`${href.slice(0, 200)} is not http or https.`, {
    hint: 'Only http and https are supported.',
  });
}

/** Omits undefined fields, because they would hide the defaults. */
function pickDefined(request: EgressRequest): Partial<EgressLimits> {
  const { headersTimeoutMs, bodyTimeoutMs, timeoutMs, maxBytes } = request;
  const fields = Object.entries({ headersTimeoutMs, bodyTimeoutMs, timeoutMs, maxBytes });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}
