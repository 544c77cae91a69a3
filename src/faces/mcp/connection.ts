// A front's end of the private socket: one connection, many questions at once, each with its progress and its abort.
import { connect as connectSocket, type Socket } from 'node:net';
import { AppError, errorFromBody } from '../../errors.ts';
import {
  readFrames,
  sessionPath,
  sessionProtocol,
  writeFrame,
  type Method,
  type Reply,
  type Welcome,
} from './frames.ts';
import type { ProgressUpdate, SourceCall, ToolCard } from './source.ts';

/** The connection ended before the answer came. */
export class BrokenError extends AppError {
  /** Whether the server may have seen the call. */
  readonly sent: boolean;

  constructor(sent: boolean) {
    super('unavailable', 'The connection to the Errand server broke before it answered.', {
      hint: 'Whether the call took effect is not known: look with list_jobs before you repeat it.',
    });
    this.sent = sent;
  }
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
  progress?(update: ProgressUpdate): void;
}

export class Connection {
  welcome: Welcome = { tools: [], instructions: '', version: '' };
  onClose: (() => void) | undefined;
  private readonly socket: Socket;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;
  private closed = false;

  private constructor(socket: Socket, head: string) {
    this.socket = socket;
    socket.on('error', () => {});
    socket.on('close', () => this.broken());
    readFrames(socket, head, (frame) => this.take(frame as Reply));
  }

  /** Speaks just enough HTTP to be let in. */
  static open(path: string): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connectSocket(path);
      let answer = '';
      const fail = (error: Error) => {
        socket.destroy();
        reject(error);
      };
      const closed = () => fail(new BrokenError(false));
      const take = (chunk: string) => {
        answer += chunk;
        const end = answer.indexOf('\r\n\r\n');
        if (end < 0) return;
        socket.off('data', take);
        socket.off('error', closed);
        socket.off('close', closed);
        if (!answer.startsWith('HTTP/1.1 101')) return fail(refused(answer));
        resolve(new Connection(socket, answer.slice(end + 4)));
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

  ask(method: Method, params: unknown[], call: SourceCall): Promise<unknown> {
    if (this.closed) return Promise.reject(new BrokenError(false));
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const { signal, progress, trace } = call;
      const abort = () => {
        this.waiting.delete(id);
        writeFrame(this.socket, { cancel: id });
        reject(new AppError('timeout', 'The caller stopped waiting.'));
      };
      const done = () => {
        this.waiting.delete(id);
        signal.removeEventListener('abort', abort);
      };
      this.waiting.set(id, {
        resolve: (result) => (done(), resolve(result)),
        reject: (error) => (done(), reject(error)),
        ...(progress ? { progress } : {}),
      });
      if (signal.aborted) return abort();
      signal.addEventListener('abort', abort, { once: true });
      writeFrame(this.socket, { id, method, params, ...(trace ? { trace } : {}) });
    });
  }

  /** Asks for JSON that is passed on unread; undefined: it did not come. Answers a number for `cancel`. */
  askRaw(
    question: { method: Method; params: unknown[]; more: boolean },
    done: (raw: string | undefined) => void,
  ): number {
    const { method, params, more } = question;
    const id = ++this.lastId;
    const over = (raw: string | undefined) => {
      this.waiting.delete(id);
      done(raw);
    };
    this.waiting.set(id, {
      resolve: (raw) => over(raw as string),
      reject: () => over(undefined),
    });
    writeFrame(this.socket, { id, method, params }, more);
    return id;
  }

  cancel(id: number): void {
    if (this.waiting.delete(id)) writeFrame(this.socket, { cancel: id });
  }

  card(name: string): ToolCard | undefined {
    return this.welcome.tools.find((tool) => tool.name === name);
  }

  close(): void {
    this.socket.destroy();
  }

  private take(frame: Reply): void {
    const waiting = this.waiting.get(frame.id);
    if (!waiting) return;
    if ('item' in frame) waiting.progress?.(frame.item as unknown as ProgressUpdate);
    else if ('error' in frame) waiting.reject(errorFromBody(frame.error));
    else waiting.resolve('raw' in frame ? frame.raw : frame.result);
  }

  private broken(): void {
    if (this.closed) return;
    this.closed = true;
    this.onClose?.();
    for (const waiting of this.waiting.values()) waiting.reject(new BrokenError(true));
  }
}

function refused(answer: string): AppError {
  const line = answer.slice(0, answer.indexOf('\r\n'));
  return new AppError('unavailable', `The Errand server does not take fronts: ${line}.`, {
    hint: 'It is probably of an older version: stop it (`errand doctor` names its pid), the next call starts a new one.',
  });
}
