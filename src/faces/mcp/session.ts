// The server's end of the private socket: an upgraded connection becomes a session with a source of its own, made for
// the toolsets, dialects and place its front named. When the connection ends, its calls stop waiting; jobs go on.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, errorBody } from '../../errors.ts';
import type { Log } from '../../runtime/log.ts';
import {
  readFrames,
  sessionPath,
  sessionProtocol,
  writeFrame,
  type Hello,
  type Reply,
  type Request,
  type Welcome,
} from './frames.ts';
import { resultJson } from './protocol.ts';
import type { JsonObject, Source, SourceCall } from './source.ts';

export interface SessionOptions {
  /** A source for the home's owner; throws an AppError for a choice that cannot be served. */
  source(hello: Hello): Source;
  version: string;
  log: Log;
}

export interface Sessions {
  /** For the `upgrade` event of the private socket's HTTP server; false: not for us. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** Open connections. */
  count(): number;
  close(): void;
}

const callsMax = 1000;

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
      // Sockets of an HTTP server stay half open by themselves: a front that is gone would count as one that is here.
      socket.on('end', () => socket.destroy());
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${sessionProtocol}\r\n\r\n`,
      );
      new Session(socket, options).begin(head.toString('utf8'));
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

  begin(head: string): void {
    const end = () => {
      for (const call of this.calls.values()) call.abort();
      this.calls.clear();
    };
    this.socket.on('error', end);
    this.socket.on('close', end);
    readFrames(this.socket, head, (message) => {
      const frame = message as Request;
      if ('cancel' in frame) this.calls.get(frame.cancel)?.abort();
      else void this.serve(frame);
    });
  }

  private async serve(frame: Exclude<Request, { cancel: number }>): Promise<void> {
    const { id, method, params, trace } = frame;
    const stop = new AbortController();
    if (this.calls.size >= callsMax) {
      const message = `More than ${callsMax} calls are open on this connection.`;
      return this.reply({ id, error: errorBody(new AppError('limitExceeded', message)) });
    }
    this.calls.set(id, stop);
    try {
      const call: SourceCall = {
        signal: stop.signal,
        progress: (update) => this.reply({ id, item: { ...update } }),
        ...(trace ? { trace } : {}),
      };
      if (method === 'rawCall') this.reply({ id, raw: await this.rawAnswer(params, call) });
      else this.reply({ id, result: (await this.answer(method, params, call)) ?? null });
    } catch (error) {
      if (!(error instanceof AppError) && !stop.signal.aborted)
        this.options.log.error('a call of a front failed', { method, error });
      this.reply({ id, error: errorBody(error) });
    } finally {
      this.calls.delete(id);
    }
  }

  private async answer(method: string, params: unknown[], call: SourceCall): Promise<unknown> {
    const [first, second, third] = params;
    if (method === 'hello') return this.hello(first as Hello, call);
    const source = this.opened();
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
        throw new AppError('unsupported', `This server does not know \`${method}\`.`, {
          hint: 'The front is newer than the server: stop the server, the next call starts a new one.',
        });
    }
  }

  private async rawAnswer([name, args]: unknown[], { signal }: SourceCall): Promise<string> {
    const source = this.opened();
    if (source.rawCall) return source.rawCall(name as string, args as JsonObject, { signal });
    return resultJson(await source.call(name as string, args as JsonObject, { signal }));
  }

  private opened(): Source {
    if (this.source) return this.source;
    throw new AppError('wrongState', 'The first frame must be `hello`.');
  }

  private async hello(hello: Hello, call: SourceCall): Promise<Welcome> {
    this.source = this.options.source(hello);
    return { ...(await this.source.catalog(call)), version: this.options.version };
  }

  private reply(frame: Reply): void {
    writeFrame(this.socket, frame, this.calls.size > 1);
  }
}
