// The bridge side of the private socket: one connection with many concurrent requests, each with its own progress and
// cancellation.
import { connect as connectSocket, type Socket } from 'node:net';
import { AppError, errorFromBody } from '../../errors.ts';
import {
  readMessages,
  sessionPath,
  sessionProtocol,
  writeMessage,
  type Method,
  type BridgeResponse,
  type Welcome,
} from './bridge-protocol.ts';
import type { ProgressUpdate, SourceCall, ToolDefinition } from './source.ts';

/** The connection closed before the response arrived. */
export class ConnectionLostError extends AppError {
  /** Whether the server may have received the call. */
  readonly sent: boolean;

  constructor(sent: boolean) {
    super('unavailable', 'The connection to the Errand server was lost before it responded.', {
      hint: 'The call may have taken effect. Check with list_jobs before you repeat it.',
    });
    this.sent = sent;
  }
}

interface PendingRequest {
  resolve(result: unknown): void;
  reject(error: Error): void;
  progress?(update: ProgressUpdate): void;
}

export class Connection {
  welcome: Welcome = { tools: [], instructions: '', version: '' };
  onClose: (() => void) | undefined;
  private readonly socket: Socket;
  private readonly pending = new Map<number, PendingRequest>();
  private lastId = 0;
  private closed = false;

  private constructor(socket: Socket, head: string) {
    this.socket = socket;
    socket.on('error', () => {});
    socket.on('close', () => this.handleClose());
    readMessages(socket, head, (message) => this.handle(message as BridgeResponse));
  }

  /** Opens the connection with a minimal HTTP upgrade request. */
  static open(path: string): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connectSocket(path);
      let head = '';
      const fail = (error: Error) => {
        socket.destroy();
        reject(error);
      };
      const closed = () => fail(new ConnectionLostError(false));
      const take = (chunk: string) => {
        head += chunk;
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        socket.off('data', take);
        socket.off('error', closed);
        socket.off('close', closed);
        if (!head.startsWith('HTTP/1.1 101')) return fail(rejectedUpgrade(head));
        resolve(new Connection(socket, head.slice(end + 4)));
      };
      socket.setEncoding('utf8');
      socket.on('data', take);
      socket.on('error', closed);
      socket.on('close', closed);
      socket.write(
        `GET ${sessionPath} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${sessionProtocol}\r\n\r\n`,
      );
    });
  }

  request(method: Method, params: unknown[], call: SourceCall): Promise<unknown> {
    if (this.closed) return Promise.reject(new ConnectionLostError(false));
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const { signal, progress, trace } = call;
      const abort = () => {
        this.pending.delete(id);
        writeMessage(this.socket, { cancel: id });
        reject(new AppError('timeout', 'The caller cancelled the call.'));
      };
      const done = () => {
        this.pending.delete(id);
        signal.removeEventListener('abort', abort);
      };
      this.pending.set(id, {
        resolve: (result) => (done(), resolve(result)),
        reject: (error) => (done(), reject(error)),
        ...(progress ? { progress } : {}),
      });
      if (signal.aborted) return abort();
      signal.addEventListener('abort', abort, { once: true });
      writeMessage(this.socket, { id, method, params, ...(trace ? { trace } : {}) });
    });
  }

  /** Requests JSON that is forwarded without parsing; `done` receives undefined on failure. Returns an id for `cancel`. */
  requestRaw(
    call: { method: Method; params: unknown[]; more: boolean },
    done: (raw: string | undefined) => void,
  ): number {
    const { method, params, more } = call;
    const id = ++this.lastId;
    const finish = (raw: string | undefined) => {
      this.pending.delete(id);
      done(raw);
    };
    this.pending.set(id, {
      resolve: (raw) => finish(raw as string),
      reject: () => finish(undefined),
    });
    writeMessage(this.socket, { id, method, params }, more);
    return id;
  }

  cancel(id: number): void {
    if (this.pending.delete(id)) writeMessage(this.socket, { cancel: id });
  }

  tool(name: string): ToolDefinition | undefined {
    return this.welcome.tools.find((tool) => tool.name === name);
  }

  close(): void {
    this.socket.destroy();
  }

  private handle(message: BridgeResponse): void {
    const pending = this.pending.get(message.id);
    if (!pending) return;
    if ('item' in message) pending.progress?.(message.item as unknown as ProgressUpdate);
    else if ('error' in message) pending.reject(errorFromBody(message.error));
    else pending.resolve('raw' in message ? message.raw : message.result);
  }

  private handleClose(): void {
    if (this.closed) return;
    this.closed = true;
    this.onClose?.();
    for (const pending of this.pending.values()) pending.reject(new ConnectionLostError(true));
  }
}

function rejectedUpgrade(head: string): AppError {
  const line = head.slice(0, head.indexOf('\r\n'));
  return new AppError('unavailable', `The Errand server does not accept bridges: ${line}.`, {
    hint: 'The server is probably older. Stop it (`errand doctor` shows its pid); the next call starts a new one.',
  });
}
