// A forward proxy in this process for clients that make their own connections (browsers): plain HTTP and CONNECT, both
// through the same guard. It listens on loopback and asks for a password, so that only who was told can use it.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError, errorBody, errorKind } from '../../errors.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Egress } from './egress.ts';

export interface EgressProxyOptions {
  egress: Egress;
  clock: Clock;
  log: Log;
  limits?: Partial<ProxyLimits>;
  /** Hears why a destination was refused; a browser only learns that it was. */
  onRefused?(destination: string, error: AppError): void;
}

export interface ProxyLimits {
  /** One plain answer. */
  bytesMax: number;
  timeoutMs: number;
  /** Both directions of one tunnel together. */
  tunnelBytesMax: number;
  tunnelIdleMs: number;
}

const proxyLimits: ProxyLimits = {
  bytesMax: 64 * 1024 * 1024,
  timeoutMs: 120_000,
  tunnelBytesMax: 512 * 1024 * 1024,
  tunnelIdleMs: 60_000,
};

export interface EgressProxy {
  url: string;
  username: string;
  password: string;
  /** `x-errand-mark` of answers that are the proxy's own: a site cannot pretend to be it. */
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

/** Between two neighbours only: never handed on. */
const hopHeader = /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|host)$/;

class Proxy {
  readonly username = 'errand';
  readonly password = randomBytes(18).toString('base64url');
  readonly mark = randomBytes(12).toString('base64url');
  private readonly options: EgressProxyOptions;
  private readonly limits: ProxyLimits;
  private readonly server = createServer();
  private readonly sockets = new Set<Duplex>();
  private readonly expected: Buffer;

  constructor(options: EgressProxyOptions) {
    this.options = options;
    this.limits = { ...proxyLimits, ...options.limits };
    this.expected = Buffer.from(btoa(`${this.username}:${this.password}`));
    this.server.on('connection', (socket) => this.keep(socket));
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
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      this.checkPassword(request);
      if (!url.startsWith('http://'))
        throw new AppError('invalidInput', 'This is a proxy: send the whole URL.');
      const hasBody =
        request.headers['content-length'] !== undefined ||
        request.headers['transfer-encoding'] !== undefined;
      const answer = await this.options.egress.request({
        url,
        method: request.method ?? 'GET',
        headers: endToEnd(request.headers) as Record<string, string>,
        ...(hasBody ? { body: request as AsyncIterable<Buffer> } : {}),
        trust: 'guarded',
        signal: gone.signal,
        redirects: 0,
        decompress: false,
        bytesMax: this.limits.bytesMax,
        timeoutMs: this.limits.timeoutMs,
      });
      response.writeHead(answer.status, endToEnd(answer.headers));
      await pipeline(answer.body, response);
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
      this.join(client, server);
    } catch (error) {
      this.tell(authority, error);
      const { status, headers, text } = answerOf(error, this.mark);
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      client.end(`HTTP/1.1 ${status} Refused\r\n${lines.join('')}\r\n${text}`);
    }
  }

  /** Both ways until either side ends, is silent too long or has sent too much. */
  private join(client: Duplex, server: Socket): void {
    this.keep(server);
    let bytes = 0;
    let seen = -1;
    const end = () => {
      stopTimer();
      client.destroy();
      server.destroy();
    };
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > this.limits.tunnelBytesMax) end();
    };
    const watch = () => {
      if (bytes === seen) return end();
      seen = bytes;
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

  private keep(socket: Duplex): void {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
  }

  private checkPassword({ headers }: IncomingMessage): void {
    const sent = Buffer.from((headers['proxy-authorization'] ?? '').replace(/^basic\s+/i, ''));
    if (sent.length === this.expected.length && timingSafeEqual(sent, this.expected)) return;
    throw new AppError('unauthorized', 'This proxy needs its password.');
  }

  private refuse(url: string, error: unknown, response: ServerResponse): void {
    this.tell(url, error);
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { status, headers, text } = answerOf(error, this.mark);
    response.writeHead(status, headers).end(text);
  }

  private tell(to: string, error: unknown): void {
    if (error instanceof AppError && error.code === 'egressRefused')
      this.options.onRefused?.(to, error);
    else if (!(error instanceof AppError))
      this.options.log.debug('a proxied request failed', { to, error });
  }
}

function answerOf(error: unknown, mark: string) {
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

function endToEnd(headers: Record<string, string | string[] | undefined>) {
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !hopHeader.test(name)) kept[name] = value;
  return kept;
}

/** Through the URL parser, so that every spelling of an address becomes the one that is checked. */
function destination(authority: string): { host: string; port: number } {
  try {
    const url = new URL(`https://${authority}`);
    if (url.username === '' && url.pathname === '/' && url.search === '')
      return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 443) };
  } catch {
    // answered below
  }
  throw new AppError('invalidInput', `${authority.slice(0, 200)} is no host and port.`);
}
