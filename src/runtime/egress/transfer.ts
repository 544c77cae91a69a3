// One HTTP exchange: its head as a promise, its body as a queue with backpressure. It implements undici's dispatch handler
// directly, because a stream per request would cost more than the rest of the request.
import type { Dispatcher } from 'undici';

export interface Head {
  status: number;
  headers: Record<string, string | string[] | undefined>;
}

/** The connection a request runs on. */
export interface Peer {
  address: string;
  /** Requests since the connection was opened. */
  used: number;
}

interface TransferOptions {
  maxBytes: number;
  tooLarge(): Error;
  /** Called when the request has a connection and is being sent. */
  onStart(): void;
}

const maxQueuedBytes = 256 * 1024;
/** Up to this much of an unwanted body is read to keep its connection. Beyond that, closing it is cheaper. */
const maxDiscardBytes = 64 * 1024;

export class Transfer implements Dispatcher.DispatchHandler {
  peer: Peer | undefined;
  readonly head: Promise<Head>;
  /** The bytes as received, still encoded. */
  readonly chunks: AsyncIterable<Buffer>;
  private readonly options: TransferOptions;
  private readonly onSettled: () => void;
  private resolveHead: (head: Head) => void = () => {};
  private rejectHead: (error: Error) => void = () => {};
  private controller: Dispatcher.DispatchController | undefined;
  private queue: Buffer[] = [];
  private queuedBytes = 0;
  private bytes = 0;
  private state: 'open' | 'ended' | 'failed' = 'open';
  private mode: 'chunks' | 'all' | 'discard' = 'chunks';
  private error: Error | undefined;
  private wake: () => void = () => {};

  /** `onSettled` is called once, after the last byte or a failure. */
  constructor(options: TransferOptions, onSettled: () => void) {
    this.options = options;
    this.onSettled = onSettled;
    this.head = new Promise((resolve, reject) => {
      this.resolveHead = resolve;
      this.rejectHead = reject;
    });
    this.chunks = { [Symbol.asyncIterator]: () => this.iterate() };
  }

  get isSettled(): boolean {
    return this.state !== 'open';
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.peer) this.peer.used += 1;
    this.options.onStart();
    if (this.error) controller.abort(this.error);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Head['headers'],
  ): void {
    if (status >= 200) this.resolveHead({ status, headers });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.mode === 'discard') {
      if (this.bytes > maxDiscardBytes) this.fail(new Error('not wanted'));
      return;
    }
    if (this.bytes > this.options.maxBytes) return this.fail(this.options.tooLarge());
    this.queue.push(chunk);
    this.queuedBytes += chunk.length;
    if (this.mode === 'chunks') {
      if (this.queuedBytes > maxQueuedBytes) controller.pause();
      this.wake();
    }
  }

  onResponseEnd(): void {
    this.settle('ended');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.error ??= error;
    this.rejectHead(this.error);
    this.settle('failed');
  }

  /** Aborts the request in any state. */
  fail(error: Error): void {
    if (this.state !== 'open') return;
    this.error ??= error;
    this.rejectHead(this.error);
    this.settle('failed');
    this.controller?.abort(this.error);
  }

  async readAll(): Promise<Buffer> {
    this.mode = 'all';
    this.controller?.resume();
    if (this.state === 'open') await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.state === 'failed') throw this.error!;
    const bytes = this.queue.length === 1 ? this.queue[0]! : Buffer.concat(this.queue);
    this.queue = [];
    return bytes;
  }

  discard(): void {
    if (this.state !== 'open') return;
    this.mode = 'discard';
    this.queue = [];
    this.wake();
    if (this.bytes > maxDiscardBytes) this.fail(new Error('not wanted'));
    else this.controller?.resume();
  }

  private async *iterate(): AsyncGenerator<Buffer> {
    try {
      for (;;) {
        const chunk = this.queue.shift();
        if (chunk) {
          this.queuedBytes -= chunk.length;
          if (this.queuedBytes <= maxQueuedBytes / 2) this.controller?.resume();
          yield chunk;
        } else if (this.state === 'failed') {
          throw this.error!;
        } else if (this.state === 'ended' || this.mode === 'discard') {
          return;
        } else {
          await new Promise<void>((resolve) => (this.wake = resolve));
        }
      }
    } finally {
      this.discard();
    }
  }

  private settle(state: 'ended' | 'failed'): void {
    if (this.state !== 'open') return;
    this.state = state;
    this.onSettled();
    this.wake();
  }
}
