// The one guarded way out to the network. Every request says how far its destination is trusted; a guarded one is
// checked against the addresses it really connects to, again at every redirect, and everything has a cap.
import { isIP, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { AppError } from '../../errors.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { EgressBody } from './body.ts';
import { Connector, type Resolve } from './connector.ts';
import { acceptEncoding, decoders } from './decode.ts';
import { failed, failureOf, isStale, timedOut, tooLarge } from './failure.ts';
import { type EgressPolicy, Policy, refusal, type Trust } from './policy.ts';
import { type PoolLimits, Pools } from './pools.ts';
import { credentialsHeader, nextHop, type Hop } from './redirect.ts';
import { type Head, Transfer } from './transfer.ts';

export interface EgressLimits extends PoolLimits {
  headersTimeoutMs: number;
  /** Silence between two pieces of a body. */
  bodyTimeoutMs: number;
  /** The whole request with its redirects, until the last byte is read. */
  timeoutMs: number;
  bytesMax: number;
  redirectsMax: number;
}

export const egressLimits: EgressLimits = {
  connectTimeoutMs: 10_000,
  headersTimeoutMs: 30_000,
  bodyTimeoutMs: 30_000,
  timeoutMs: 60_000,
  bytesMax: 10 * 1024 * 1024,
  redirectsMax: 5,
  connectionsPerOriginMax: 64,
  keepAliveMs: 4000,
  headerBytesMax: 64 * 1024,
};

export interface EgressOptions {
  policy: EgressPolicy;
  clock: Clock;
  log: Log;
  limits?: Partial<EgressLimits>;
  userAgent?: string;
  /** Stands in for the system's resolver. */
  resolve?: Resolve;
  /** Certificates (PEM) to trust beyond the usual ones. */
  ca?: string;
}

export interface EgressRequest {
  url: string | URL;
  method?: string;
  headers?: Record<string, string>;
  /** A stream cannot be sent again, so a redirect that wants it again fails. */
  body?: string | Buffer | AsyncIterable<Uint8Array>;
  trust: Trust;
  /** On a connection of its own: for what must not be sent twice, so that an old connection cannot swallow it. */
  fresh?: boolean;
  /** Called when the first byte is about to leave: what failed before was never sent. */
  onSent?(): void;
  signal?: AbortSignal;
  /** How many redirects are followed; 0 answers the redirect itself. */
  redirects?: number;
  bytesMax?: number;
  /** 0: no limit for the whole (a stream that is followed); silence is still limited by bodyTimeoutMs. */
  timeoutMs?: number;
  headersTimeoutMs?: number;
  bodyTimeoutMs?: number;
  /** False: bytes and headers as they came. */
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
  /** A plain TCP connection under the same rules. */
  connect(to: {
    host: string;
    port: number;
    trust: Trust;
    timeoutMs?: number;
    signal?: AbortSignal;
  }): Promise<Socket>;
  /** Throws for a guarded URL that would be refused whatever a resolver says: whoever keeps one for later asks first. */
  check(url: string): void;
  /**
   * The same with further hosts (`host:port`) that guarded requests may reach. Its connections are its own: what was
   * opened for one of them never serves anybody else. To be closed by whoever asked for it.
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
  const way = new Way(connector, limits, options);
  return {
    request: (request) => way.request(request),
    connect: (to) => openSocket(connector, limits, to),
    check: (url) => checkPlain(policy, new URL(url)),
    allowing: (hosts) =>
      createEgress({ ...options, policy: { allow: [...options.policy.allow, ...hosts] } }),
    close: () => way.close(),
  };
}

/** Names are resolved when they are used; only a literal address, or this machine's own name, is known before. */
function checkPlain(policy: Policy, { hostname, port, protocol }: URL): void {
  const host = hostname.replace(/^\[|\]$/g, '');
  const isOwn = /^(.+\.)?localhost\.?$/.test(host);
  if (isIP(host) === 0 && !isOwn) return;
  policy.check(
    host,
    Number(port) || (protocol === 'https:' ? 443 : 80),
    isOwn ? '127.0.0.1' : host,
  );
}

/** One request with what holds for all of its hops. */
interface Errand {
  request: EgressRequest;
  bytesMax: number;
  timeouts: { headersTimeoutMs: number; bodyTimeoutMs: number; timeoutMs: number };
  current: Transfer | undefined;
  /** The one whose answer was handed out. */
  final: Transfer | undefined;
  /** Takes the timer and the listener back. */
  done(): void;
}

class Way {
  private readonly pools: Pools;
  private readonly limits: EgressLimits;
  private readonly options: EgressOptions;

  constructor(connector: Connector, limits: EgressLimits, options: EgressOptions) {
    this.pools = new Pools(connector, limits);
    this.limits = limits;
    this.options = options;
  }

  close(): Promise<void> {
    return this.pools.close();
  }

  async request(request: EgressRequest): Promise<EgressResponse> {
    request.signal?.throwIfAborted();
    let hop = this.firstHop(request);
    const errand = this.begin(request, hop.url.href);
    const redirects: EgressResponse['redirects'] = [];
    const redirectsMax = request.redirects ?? this.limits.redirectsMax;
    try {
      for (;;) {
        const { transfer, head } = await this.send(errand, hop);
        const next = redirectsMax === 0 ? undefined : nextHop(hop, head);
        if (!next) return this.response(errand, hop, transfer, head, redirects);
        transfer.discard();
        redirects.push({ status: head.status, url: hop.url.href });
        if (redirects.length > redirectsMax)
          throw failed(hop.url.href, 'redirects', `more than ${redirectsMax} redirects`);
        checkScheme(next.url);
        hop = next;
      }
    } catch (error) {
      errand.done();
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
    // A name of the caller's choice at an address of the caller's choice reaches what neither check saw.
    if (request.trust === 'guarded') delete headers.host;
    const credentials = credentialsHeader(url);
    if (credentials) headers.authorization ??= credentials;
    const { method = 'GET', body, trust } = request;
    return { url, method: method.toUpperCase(), headers, body, trust };
  }

  private begin(request: EgressRequest, url: string): Errand {
    const { headersTimeoutMs, bodyTimeoutMs, timeoutMs, bytesMax } = {
      ...this.limits,
      ...defined(request),
    };
    const errand: Errand = {
      request,
      bytesMax,
      timeouts: { headersTimeoutMs, bodyTimeoutMs, timeoutMs },
      current: undefined,
      final: undefined,
      done: () => {
        stopTimer();
        request.signal?.removeEventListener('abort', onAbort);
      },
    };
    const onAbort = () => errand.current?.fail(abortError(request.signal));
    request.signal?.addEventListener('abort', onAbort, { once: true });
    const expire = () => errand.current?.fail(timedOut(url, 'total', timeoutMs));
    const stopTimer = timeoutMs > 0 ? this.options.clock.after(timeoutMs, expire) : () => {};
    return errand;
  }

  private async send(errand: Errand, hop: Hop): Promise<{ transfer: Transfer; head: Head }> {
    const url = hop.url.href;
    for (let attempt = 1; ; attempt++) {
      const transfer = this.start(errand, hop);
      try {
        return { transfer, head: await transfer.head };
      } catch (error) {
        const isReused = (transfer.peer?.used ?? 0) > 1;
        const isSafe = hop.body === undefined && (hop.method === 'GET' || hop.method === 'HEAD');
        if (attempt === 1 && isReused && isSafe && isStale(error)) continue;
        throw explained(error, url, errand);
      }
    }
  }

  private start(errand: Errand, hop: Hop): Transfer {
    const { bytesMax, timeouts, request } = errand;
    const url = hop.url.href;
    const options = {
      bytesMax,
      tooLarge: () => tooLarge(url, bytesMax),
      started: () => request.onSent?.(),
    };
    const transfer: Transfer = new Transfer(options, () => {
      if (errand.final === transfer) errand.done();
    });
    errand.current = transfer;
    if (request.signal?.aborted) {
      transfer.fail(abortError(request.signal));
      return transfer;
    }
    try {
      const way = { trust: hop.trust, fresh: request.fresh === true };
      this.pools.dispatch(way, dispatchOptions(hop, timeouts), transfer);
    } catch (error) {
      transfer.fail(error as Error);
    }
    return transfer;
  }

  private response(
    errand: Errand,
    hop: Hop,
    transfer: Transfer,
    { status, headers }: Head,
    redirects: EgressResponse['redirects'],
  ): EgressResponse {
    const { request, bytesMax } = errand;
    const url = hop.url.href;
    if (hop.method !== 'HEAD' && Number(headers['content-length']) > bytesMax) {
      const error = tooLarge(url, bytesMax);
      transfer.fail(error);
      throw error;
    }
    errand.final = transfer;
    if (transfer.isSettled) errand.done();
    const isDecoded = request.decompress !== false && hop.method !== 'HEAD';
    const chain = (isDecoded ? decoders(headers['content-encoding']) : undefined) ?? [];
    if (chain.length > 0) {
      delete headers['content-encoding'];
      delete headers['content-length'];
    }
    const explain = (error: unknown) => explained(error, url, errand);
    const body = new EgressBody(transfer, { url, bytesMax, chain, explain });
    const remoteAddress = transfer.peer?.address ?? '';
    return { status, headers, url, redirects, remoteAddress, body };
  }
}

/** Who gave up gets their own reason back, not ours. */
function explained(error: unknown, url: string, { request, timeouts }: Errand): Error {
  if (request.signal?.aborted) return abortError(request.signal);
  return failureOf(error, url, timeouts);
}

function dispatchOptions(hop: Hop, timeouts: Errand['timeouts']): Dispatcher.DispatchOptions {
  const { url, method, headers, body } = hop;
  return {
    origin: url.origin,
    path: url.pathname + url.search,
    method,
    headers,
    headersTimeout: timeouts.headersTimeoutMs,
    bodyTimeout: timeouts.bodyTimeoutMs,
    ...(body === undefined ? {} : { body: bodyOf(body) }),
  };
}

function bodyOf(body: NonNullable<EgressRequest['body']>): string | Buffer | Readable {
  return typeof body === 'string' || Buffer.isBuffer(body) ? body : Readable.from(body);
}

function openSocket(
  connector: Connector,
  limits: EgressLimits,
  to: Parameters<Egress['connect']>[0],
): Promise<Socket> {
  const { host, port, trust, signal, timeoutMs = limits.connectTimeoutMs } = to;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    const onAbort = () => {
      giveUp();
      reject(abortError(signal));
    };
    const giveUp = connector.open({ host, port, tls: false, trust, timeoutMs }, (error, socket) => {
      signal?.removeEventListener('abort', onAbort);
      if (socket) return resolve(socket);
      reject(failureOf(error, `${isIP(host) === 6 ? `[${host}]` : host}:${port}`, limits));
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function parseUrl(input: string | URL): URL {
  let url: URL;
  try {
    url = new URL(input);
  } catch {
    throw new AppError('invalidInput', `${String(input).slice(0, 200)} is not a URL.`, {
      hint: 'Write the whole address: https://example.com/path.',
    });
  }
  checkScheme(url);
  return url;
}

function checkScheme({ protocol, href }: URL): void {
  if (protocol === 'http:' || protocol === 'https:') return;
  throw refusal(`${href.slice(0, 200)} is not http or https.`, {
    hint: 'Only http and https leave this machine; the setting `egress.allow` names hosts of these.',
  });
}

function abortError(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error
    ? reason
    : new DOMException('The request was given up', 'AbortError');
}

/** Only what was given: an undefined field must not hide a default. */
function defined(request: EgressRequest): Partial<EgressLimits> {
  const { headersTimeoutMs, bodyTimeoutMs, timeoutMs, bytesMax } = request;
  const given = Object.entries({ headersTimeoutMs, bodyTimeoutMs, timeoutMs, bytesMax });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}
