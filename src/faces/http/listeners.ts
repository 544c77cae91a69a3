// The servers behind the face: TCP for everybody, a unix socket for the home's owner, the same code behind both.
import { chmodSync, rmSync } from 'node:fs';
import { createServer, ServerResponse, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError } from '../../errors.ts';
import type { Log } from '../../runtime/log.ts';
import { problemOf, problemType } from './answer.ts';
import type { Connections } from './connections.ts';
import { portHolder } from './port-holder.ts';
import { headerBytesMax, type HttpLimits } from './settings.ts';

export interface TcpAddress {
  url: string;
  host: string;
  port: number;
}

export interface ListenersOptions {
  limits: HttpLimits;
  log: Log;
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    local: boolean,
    upgraded?: Duplex,
  ): void;
  /** Who holds the connections over TCP. */
  held: Connections;
  /** Whether a request over TCP may become a WebSocket. */
  watches(request: IncomingMessage): boolean;
}

/** For a protocol of its own over the private socket; false: not for it. */
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
    server.on('upgrade', (request, socket, head) => this.watch(request, socket, head));
    try {
      await listening(server, { port, host });
    } catch (error) {
      throw listenError(error, `${host}:${port}`, port);
    }
    this.servers.push(server);
    const address = server.address() as AddressInfo;
    return {
      url: `http://${callable(address)}:${address.port}`,
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
      if (await answers(path)) throw listenError(error, path);
      // Left behind by a server that was killed.
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

  /** Takes no new connections; resolves when the last one has ended. */
  async close(): Promise<void> {
    const closed = this.servers.map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    for (const server of this.servers) server.closeIdleConnections();
    await Promise.all(closed);
  }

  cut(): void {
    // Also those that changed to another protocol, which the servers no longer count as theirs.
    for (const socket of this.sockets) socket.destroy();
  }

  /** Answered like any other request, up to the point where its route takes the connection. */
  private watch(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    if (head.length > 0) socket.unshift(head);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.on('finish', () => socket.end());
    this.options.handle(request, response, false, socket);
  }

  private create(local: boolean): Server {
    const { limits, handle, watches } = this.options;
    const server = createServer(
      {
        // Other wishes for another protocol are requests like all (HTTP/2 clients ask every server).
        shouldUpgradeCallback: (request) => local || watches(request),
        maxHeaderSize: local ? headerBytesMax.socket : headerBytesMax.tcp,
        headersTimeout: limits.headersTimeoutMs,
        requestTimeout: limits.requestTimeoutMs,
        keepAliveTimeout: limits.idleTimeoutMs,
        connectionsCheckingInterval: checkingMs(limits),
        noDelay: true,
      },
      (request, response) => handle(request, response, local),
    );
    // Over TCP the connections make room themselves.
    if (local) server.maxConnections = limits.connectionsMax;
    server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      if (!local) this.options.held.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      refuse(error, socket as Socket),
    );
    return server;
  }
}

/** A URL for callers on this machine: "every address" is none that can be called. */
function callable({ address, family }: AddressInfo): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  if (address === '::') return '[::1]';
  return family === 'IPv6' ? `[${address}]` : address;
}

/** Node looks only so often whether somebody is late; its own 30 s would make our limits a guess. */
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

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => (socket.destroy(), resolve(true)));
    socket.once('error', () => resolve(false));
  });
}

/** What is not HTTP never becomes a request; it still gets an answer that says why. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const [status, line, reason] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large', 'The headers are too large.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout', 'The request was not sent in time.']
        : [400, 'Bad Request', 'This is not an HTTP request.'];
  const body = JSON.stringify({ ...problemOf(new AppError('invalidInput', reason)), status });
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
    return new AppError('conflict', `${where} is taken${by}.`, {
      hint: 'Stop that process, or choose another port with `--port` or the setting `server.port`.',
      cause: error,
    });
  }
  return new AppError('unavailable', `Cannot listen on ${where}: ${message}.`, {
    hint: 'Check the host, the port and the permissions of the folder.',
    cause: error,
  });
}
