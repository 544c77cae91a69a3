// The server side of the private socket. Each upgraded connection becomes a session with its own source for the toolsets,
// dialects and folder that the bridge requested. When the connection closes, its calls are aborted; jobs keep running.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, errorBody } from '../../errors.ts';
import type { Log } from '../../runtime/log.ts';
import {
  readMessages,
  sessionPath,
  sessionProtocol,
  writeMessage,
  type Hello,
  type BridgeRequest,
  type BridgeResponse,
  type Welcome,
} from './bridge-protocol.ts';
import { resultJson } from './protocol.ts';
import type { JsonObject, Source, SourceCall } from './source.ts';

interface SessionOptions {
  /** Returns a source for the owner of the home; throws an AppError if the selection cannot be served. */
  source(hello: Hello): Source;
  version: string;
  log: Log;
}

export interface Sessions {
  /** Handles the `upgrade` event of the private socket; returns false for other paths. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** Number of open connections. */
  count(): number;
  close(): void;
}

const maxCalls = 1000;

export function createSessions(options: SessionOptions): Sessions {
  const open = new Set<Duplex>();
  return {
    upgrade: (request, socket, head) => {
      if (request.url?.split('?')[0] !== sessionPath) return false;
      if (request.headers.upgrade !== sessionProtocol) {
        socket.end('HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\n\r\n');
        return true;
      }
      open.add(socket);
      socket.on('close', () => open.delete(socket));
      // HTTP server sockets stay half open by default, so a bridge that exited would still be counted.
      socket.on('end', () => socket.destroy());
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${sessionProtocol}\r\n\r\n`,
      );
      new Session(socket, options).start(head.toString('utf8'));
      return true;
    },
    count: () => open.size,
    close: () => {
      for (const socket of open) socket.destroy();
    },
  };
}

class Session {
  private readonly socket: Duplex;
  private readonly options: SessionOptions;
  private readonly calls = new Map<number, AbortController>();
  private source: Source | undefined;

  constructor(socket: Duplex, options: SessionOptions) {
    this.socket = socket;
    this.options = options;
  }

  start(head: string): void {
    const end = () => {
      for (const call of this.calls.values()) call.abort();
      this.calls.clear();
    };
    this.socket.on('error', end);
    this.socket.on('close', end);
    readMessages(this.socket, head, (message) => {
      const request = message as BridgeRequest;
      if ('cancel' in request) this.calls.get(request.cancel)?.abort();
      else void this.serve(request);
    });
  }

  private async serve(request: Exclude<BridgeRequest, { cancel: number }>): Promise<void> {
    const { id, method, params, trace } = request;
    const stop = new AbortController();
    if (this.calls.size >= maxCalls) {
      const message = `This connection already has ${maxCalls} open calls.`;
      return this.reply({ id, error: errorBody(new AppError('limitExceeded', message)) });
    }
    this.calls.set(id, stop);
    try {
      const call: SourceCall = {
        signal: stop.signal,
        progress: (update) => this.reply({ id, item: { ...update } }),
        ...(trace ? { trace } : {}),
      };
      if (method === 'rawCall') this.reply({ id, raw: await this.rawResult(params, call) });
      else this.reply({ id, result: (await this.dispatch(method, params, call)) ?? null });
    } catch (error) {
      if (!(error instanceof AppError) && !stop.signal.aborted)
        this.options.log.error('bridge call failed', { method, error });
      this.reply({ id, error: errorBody(error) });
    } finally {
      this.calls.delete(id);
    }
  }

  private async dispatch(method: string, params: unknown[], call: SourceCall): Promise<unknown> {
    const [first, second, third] = params;
    if (method === 'hello') return this.hello(first as Hello, call);
    const source = this.requireSource();
    const id = first as string;
    switch (method) {
      case 'call':
        return source.call(id, second as Record<string, unknown>, call);
      case 'task':
        return source.task(id, call);
      case 'settledTask':
        return source.settledTask(id, call);
      case 'cancelTask':
        return source.cancelTask(id, call);
      case 'tasks':
        return source.tasks((first as string | null) ?? undefined, call);
      case 'resources':
        return source.resources((first as string | null) ?? undefined, call);
      case 'read':
        return source.read(id, call);
      case 'complete':
        return source.complete(id, second as string, third as string, call);
      case 'watch':
        return source.watch(id, () => call.progress!({ progress: 1 }), call.signal);
      default:
        throw new AppError(
          'unsupported',
          `This server does not support the method \`${method}\`.`,
          {
            hint: 'The bridge is newer than the server. Stop the server; the next call starts a new one.',
          },
        );
    }
  }

  private async rawResult([name, args]: unknown[], { signal }: SourceCall): Promise<string> {
    const source = this.requireSource();
    if (source.rawCall) return source.rawCall(name as string, args as JsonObject, { signal });
    return resultJson(await source.call(name as string, args as JsonObject, { signal }));
  }

  private requireSource(): Source {
    if (this.source) return this.source;
    throw new AppError('wrongState', 'The first message must be `hello`.');
  }

  private async hello(hello: Hello, call: SourceCall): Promise<Welcome> {
    this.source = this.options.source(hello);
    return { ...(await this.source.catalog(call)), version: this.options.version };
  }

  private reply(response: BridgeResponse): void {
    writeMessage(this.socket, response, this.calls.size > 1);
  }
}
