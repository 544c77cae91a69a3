// The HTTP servers: TCP for all callers, and a Unix socket for the owner of the home. Both use the same handler.
import { chmodSync, rmSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError } from '../../errors.ts';
import type { Log } from '../../runtime/log.ts';
import { nodeHttp } from '../../runtime/packages.ts';
import { toProblem, problemType } from './problem.ts';
import type { Connections } from './connections.ts';
import { portHolder } from './port-holder.ts';
import { maxHeaderBytes, type HttpLimits } from './settings.ts';

export interface TcpAddress {
  url: string;
  host: string;
  port: number;
}

interface ListenersOptions {
  limits: HttpLimits;
  log: Log;
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    local: boolean,
    upgraded?: Duplex,
  ): void;
  /** Counts the TCP connections. */
  tcpConnections: Connections;
  /** Whether a TCP request may become a WebSocket. */
  allowsWebSocket(request: IncomingMessage): boolean;
}

/** Takes over a private-socket connection for another protocol; returns false when it does not handle the request. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;

export class Listeners {
  private readonly options: ListenersOptions;
  private readonly servers: Server[] = [];
  private readonly sockets = new Set<Socket>();
  private upgrade: UpgradeHandler = () => false;

  constructor(options: ListenersOptions) {
    this.options = options;
  }

  async tcp({ port, host }: { port: number; host: string }): Promise<TcpAddress> {
    const server = this.create(false);
    server.on('upgrade', (request, socket, head) => this.serveWebSocket(request, socket, head));
    try {
      await listening(server, { port, host });
    } catch (error) {
      throw listenError(error, `${host}:${port}`, port);
    }
    this.servers.push(server);
    const address = server.address() as AddressInfo;
    return {
      url: `http://${reachableHost(address)}:${address.port}`,
      host: address.address,
      port: address.port,
    };
  }

  async socket(path: string): Promise<void> {
    const server = this.create(true);
    server.on('upgrade', (request, socket, head) => {
      if (!this.upgrade(request, socket, head)) socket.destroy();
    });
    try {
      await listening(server, { path });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw listenError(error, path);
      if (await isListening(path)) throw listenError(error, path);
      // A killed server left this socket file behind.
      rmSync(path, { force: true });
      await listening(server, { path });
    }
    chmodSync(path, 0o600);
    this.servers.push(server);
  }

  onUpgrade(handler: UpgradeHandler): void {
    this.upgrade = handler;
  }

  connections(): number {
    return this.sockets.size;
  }

  /** Accepts no new connections; resolves when the last one has closed. */
  async close(): Promise<void> {
    const closed = this.servers.map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    for (const server of this.servers) server.closeIdleConnections();
    await Promise.all(closed);
  }

  closeAll(): void {
    // Includes connections that switched to another protocol: the HTTP servers no longer track those.
    for (const socket of this.sockets) socket.destroy();
  }

  /** Handled like any other request until its route takes over the connection. */
  private serveWebSocket(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    if (head.length > 0) socket.unshift(head);
    const response = new (nodeHttp().ServerResponse)(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.on('finish', () => socket.end());
    this.options.handle(request, response, false, socket);
  }

  private create(local: boolean): Server {
    const { limits, handle, allowsWebSocket } = this.options;
    const server = nodeHttp().createServer(
      {
        // Other upgrade headers are ignored: HTTP/2 clients send one with every request.
        shouldUpgradeCallback: (request) => local || allowsWebSocket(request),
        maxHeaderSize: local ? maxHeaderBytes.socket : maxHeaderBytes.tcp,
        headersTimeout: limits.headersTimeoutMs,
        requestTimeout: limits.requestTimeoutMs,
        keepAliveTimeout: limits.idleTimeoutMs,
        connectionsCheckingInterval: checkingMs(limits),
        noDelay: true,
      },
      (request, response) => handle(request, response, local),
    );
    // Over TCP, `Connections` enforces the limit.
    if (local) server.maxConnections = limits.maxConnections;
    server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      if (!local) this.options.tcpConnections.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      sendClientError(error, socket as Socket),
    );
    return server;
  }
}

/** The host for callers on this machine: wildcard addresses cannot be called. */
function reachableHost({ address, family }: AddressInfo): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  if (address === '::') return '[::1]';
  return family === 'IPv6' ? `[${address}]` : address;
}

/** How often Node checks for timeouts. With its default of 30 s our limits would be inaccurate. */
function checkingMs({ headersTimeoutMs, requestTimeoutMs }: HttpLimits): number {
  const shortest = Math.min(...[headersTimeoutMs, requestTimeoutMs].filter((ms) => ms > 0), 20_000);
  return Math.max(Math.ceil(shortest / 4), 20);
}

function listening(
  server: Server,
  where: { port: number; host: string } | { path: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => (socket.destroy(), resolve(true)));
    socket.once('error', () => resolve(false));
  });
}

/** Input that is not HTTP never becomes a request, but still gets a response with the reason. */
function sendClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const [status, line, reason] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large', 'The request headers are too large.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout', 'The request was not sent in time.']
        : [400, 'Bad Request', 'This is not an HTTP request.'];
  const body = JSON.stringify({ ...toProblem(new AppError('invalidInput', reason)), status });
  socket.end(
    `HTTP/1.1 ${status} ${line}\r\ncontent-type: ${problemType}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function listenError(error: unknown, where: string, port?: number): AppError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    const holder = port === undefined ? undefined : portHolder(port);
    const by = holder ? ` by ${holder.name} (pid ${holder.pid})` : '';
    return new AppError('conflict', `${where} is already in use${by}.`, {
      hint: 'Stop that process, or choose another port with `--port` or the setting `server.port`.',
      cause: error,
    });
  }
  return new AppError('unavailable', `Cannot listen on ${where}: ${message}.`, {
    hint: 'Check the host, the port and the folder permissions.',
    cause: error,
  });
}
