// A forward proxy for clients that open their own connections (browsers): plain HTTP and CONNECT, both through egress. It
// listens on loopback and requires a password.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError, errorBody, errorKind } from '../../errors.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { nodeHttp } from '../packages.ts';
import type { Egress } from './egress.ts';

export interface EgressProxyOptions {
  egress: Egress;
  clock: Clock;
  log: Log;
  limits?: Partial<ProxyLimits>;
  /** Receives the reason for a refusal, because a browser only learns that the request was refused. */
  onRefused?(destination: string, error: AppError): void;
}

interface ProxyLimits {
  /** Limit for one plain response. */
  maxBytes: number;
  timeoutMs: number;
  /** Limit for both directions of one tunnel together. */
  maxTunnelBytes: number;
  tunnelIdleMs: number;
}

const proxyLimits: ProxyLimits = {
  maxBytes: 64 * 1024 * 1024,
  timeoutMs: 120_000,
  maxTunnelBytes: 512 * 1024 * 1024,
  tunnelIdleMs: 60_000,
};

export interface EgressProxy {
  url: string;
  username: string;
  password: string;
  /** Value of `x-errand-mark` in the proxy's own responses, so that a site cannot imitate them. */
  mark: string;
  close(): Promise<void>;
}

export async function createEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const proxy = new Proxy(options);
  const port = await proxy.listen();
  return {
    url: `http://127.0.0.1:${port}`,
    username: proxy.username,
    password: proxy.password,
    mark: proxy.mark,
    close: () => proxy.close(),
  };
}

/** Hop-by-hop headers, which a proxy does not forward. */
const hopHeader = /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|host)$/;

class Proxy {
  readonly username = 'errand';
  readonly password = randomBytes(18).toString('base64url');
  readonly mark = randomBytes(12).toString('base64url');
  private readonly options: EgressProxyOptions;
  private readonly limits: ProxyLimits;
  private readonly server = nodeHttp().createServer();
  private readonly sockets = new Set<Duplex>();
  private readonly expected: Buffer;

  constructor(options: EgressProxyOptions) {
    this.options = options;
    this.limits = { ...proxyLimits, ...options.limits };
    this.expected = Buffer.from(btoa(`${this.username}:${this.password}`));
    this.server.on('connection', (socket) => this.track(socket));
    this.server.on('request', (request, response) => void this.forward(request, response));
    this.server.on('connect', (request, socket, head) => void this.tunnel(request, socket, head));
    this.server.on('clientError', (_error, socket) => socket.destroy());
  }

  listen(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(0, '127.0.0.1', () =>
        resolve((this.server.address() as AddressInfo).port),
      );
    });
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private async forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? '';
    const clientGone = new AbortController();
    response.once('close', () => clientGone.abort());
    try {
      this.checkPassword(request);
      if (!url.startsWith('http://'))
        throw new AppError('invalidInput', 'This is a proxy. Send an absolute http:// URL.');
      const hasBody =
        request.headers['content-length'] !== undefined ||
        request.headers['transfer-encoding'] !== undefined;
      const upstream = await this.options.egress.request({
        url,
        method: request.method ?? 'GET',
        headers: endToEndHeaders(request.headers) as Record<string, string>,
        ...(hasBody ? { body: request as AsyncIterable<Buffer> } : {}),
        trust: 'guarded',
        signal: clientGone.signal,
        redirects: 0,
        decompress: false,
        maxBytes: this.limits.maxBytes,
        timeoutMs: this.limits.timeoutMs,
      });
      response.writeHead(upstream.status, endToEndHeaders(upstream.headers));
      await pipeline(upstream.body, response);
    } catch (error) {
      this.refuse(url, error, response);
    }
  }

  private async tunnel(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const authority = request.url ?? '';
    client.on('error', () => client.destroy());
    try {
      this.checkPassword(request);
      const { host, port } = destination(authority);
      const server = await this.options.egress.connect({ host, port, trust: 'guarded' });
      if (client.destroyed) return void server.destroy();
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) server.write(head);
      this.relay(client, server);
    } catch (error) {
      this.report(authority, error);
      const { status, headers, text } = errorResponse(error, this.mark);
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      client.end(`HTTP/1.1 ${status} Refused\r\n${lines.join('')}\r\n${text}`);
    }
  }

  /** Forwards both directions until one side ends, is idle too long, or the byte limit is reached. */
  private relay(client: Duplex, server: Socket): void {
    this.track(server);
    let bytes = 0;
    let bytesSeen = -1;
    const end = () => {
      stopTimer();
      client.destroy();
      server.destroy();
    };
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > this.limits.maxTunnelBytes) end();
    };
    const watch = () => {
      if (bytes === bytesSeen) return end();
      bytesSeen = bytes;
      stopTimer = this.options.clock.after(this.limits.tunnelIdleMs, watch);
    };
    let stopTimer = this.options.clock.after(this.limits.tunnelIdleMs, watch);
    client.on('data', count);
    server.on('data', count);
    server.on('error', end);
    server.once('close', end);
    client.once('close', end);
    client.pipe(server);
    server.pipe(client);
  }

  private track(socket: Duplex): void {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
  }

  private checkPassword({ headers }: IncomingMessage): void {
    const sent = Buffer.from((headers['proxy-authorization'] ?? '').replace(/^basic\s+/i, ''));
    if (sent.length === this.expected.length && timingSafeEqual(sent, this.expected)) return;
    throw new AppError('unauthorized', 'This proxy requires a password.');
  }

  private refuse(url: string, error: unknown, response: ServerResponse): void {
    this.report(url, error);
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { status, headers, text } = errorResponse(error, this.mark);
    response.writeHead(status, headers).end(text);
  }

  private report(to: string, error: unknown): void {
    if (error instanceof AppError && error.code === 'egressRefused')
      this.options.onRefused?.(to, error);
    else if (!(error instanceof AppError))
      this.options.log.debug('proxied request failed', { to, error });
  }
}

function errorResponse(error: unknown, mark: string) {
  const { code, message, hint } = errorBody(error);
  const text = hint ? `${message} ${hint}\n` : `${message}\n`;
  const status = code === 'unauthorized' ? 407 : errorKind(code).http;
  const headers: Record<string, string> = {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': String(Buffer.byteLength(text)),
    'x-errand-error': code,
    'x-errand-mark': mark,
    connection: 'close',
    ...(status === 407 ? { 'proxy-authenticate': 'Basic realm="errand"' } : {}),
  };
  return { status, headers, text };
}

function endToEndHeaders(headers: Record<string, string | string[] | undefined>) {
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !hopHeader.test(name)) kept[name] = value;
  return kept;
}

/** Uses the URL parser, so that every spelling of an address becomes the one that is checked. */
function destination(authority: string): { host: string; port: number } {
  try {
    const url = new URL(`https://${authority}`);
    if (url.username === '' && url.pathname === '/' && url.search === '')
      return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 443) };
  } catch {
    // Reported below.
  }
  throw new AppError('invalidInput', `${authority.slice(0, 200)} is not a host and port.`);
}
