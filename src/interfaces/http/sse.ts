// Sends an operation stream as server-sent events: items with their ids, keep-alive comments for proxies, and a final `end`
// event, so that a client can tell the end of the stream from a lost connection.
import type { ServerResponse } from 'node:http';
import { itemData, type StreamItem } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { waitForDrain } from '../../runtime/wire.ts';
import { toProblem, sendProblem } from './problem.ts';
import { writeBytes } from './response.ts';
import { ByteEventEncoder } from './byte-events.ts';

interface SseOptions {
  clock: Clock;
  keepAliveMs: number;
  /** Aborted when the client disconnects or the server stops. */
  signal: AbortSignal;
}

/** A stream that fails within this time gets a plain error response with its status. */
export const earlyErrorMs = 100;
const reconnectMs = 1000;

/** Small items are written together once per event loop turn; a batch of this size is written immediately. */
const maxBatchBytes = 16 * 1024;

export async function sendEvents(
  response: ServerResponse,
  items: AsyncIterable<StreamItem>,
  options: SseOptions,
): Promise<void> {
  const iterator = items[Symbol.asyncIterator]();
  const { signal, clock } = options;
  try {
    const first = iterator.next();
    first.catch(() => {});
    await Promise.race([first, clock.sleep(earlyErrorMs, signal)]);
    if (signal.aborted) return void response.destroy();
    open(response);
    await new EventWriter(response, options).writeAll(iterator, first);
  } catch (error) {
    if (!response.headersSent) return sendProblem(response, error);
    response.end(formatEvent({ event: 'error', data: toProblem(error) }));
  } finally {
    // The aborted signal ends an iterator that is still waiting; this function does not wait for it.
    void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

function formatEvent(item: StreamItem): string {
  return `${formatEventHead(item)}data: ${itemData(item)}\n\n`;
}

function formatEventHead({ id, event }: StreamItem): string {
  return `${id === undefined ? '' : `id: ${oneLine(id)}\n`}event: ${oneLine(event)}\n`;
}

const endEvent = formatEvent({ event: 'end', data: {} });

class EventWriter {
  private readonly response: ServerResponse;
  private readonly options: SseOptions;
  private readonly byteEvents = new ByteEventEncoder();
  private batch = '';
  private isFlushScheduled = false;
  private onDisconnect = () => {};

  constructor(response: ServerResponse, options: SseOptions) {
    this.response = response;
    this.options = options;
  }

  async writeAll(
    iterator: AsyncIterator<StreamItem>,
    first: Promise<IteratorResult<StreamItem>>,
  ): Promise<void> {
    const { response } = this;
    const { signal } = this.options;
    const onAbort = () => this.onDisconnect();
    signal.addEventListener('abort', onAbort, { once: true });
    const stopKeepAlive = startKeepAlive(response, this.options);
    let last: string | undefined;
    try {
      for (let next = first; ; next = iterator.next()) {
        const result = await this.orDisconnected(next);
        if (!result) return void response.end();
        // Some streams send their own `end` event.
        if (result.done) return void response.end(this.batch + (last === 'end' ? '' : endEvent));
        last = result.value.event;
        if (!(await this.write(result.value))) return void response.end();
      }
    } catch (error) {
      this.flush();
      throw error;
    } finally {
      this.batch = '';
      stopKeepAlive();
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Returns false once the client disconnected. */
  private async write(item: StreamItem): Promise<boolean> {
    const { response } = this;
    const { bytes } = item;
    if (bytes) {
      this.flush();
      const eventBytes = this.byteEvents.encode(formatEventHead(item), { ...item, bytes });
      return (await this.orDisconnected(writeBytes(response, eventBytes))) === true;
    }
    this.enqueue(formatEvent(item));
    if (!response.writableNeedDrain) return true;
    return (await this.orDisconnected(waitForDrain(response))) === true;
  }

  private enqueue(text: string): void {
    this.batch += text;
    if (this.batch.length >= maxBatchBytes) return this.flush();
    if (this.isFlushScheduled) return;
    this.isFlushScheduled = true;
    setImmediate(() => {
      this.isFlushScheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.batch === '') return;
    this.response.write(this.batch);
    this.batch = '';
  }

  /**
   * Resolves to undefined once the client disconnected. Promise.race with one long-lived promise would keep every item in
   * memory.
   */
  private orDisconnected<T>(promise: Promise<T>): Promise<T | undefined> {
    if (this.options.signal.aborted) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.onDisconnect = () => resolve(undefined);
      promise.then(resolve, reject);
    });
  }
}

function open(response: ServerResponse): void {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // Tells nginx and similar proxies not to buffer events.
    'x-accel-buffering': 'no',
  });
  response.write(`retry: ${reconnectMs}\n\n`);
}

function startKeepAlive(response: ServerResponse, { clock, keepAliveMs }: SseOptions): () => void {
  let cancel = () => {};
  const sendComment = () => {
    if (!response.writableNeedDrain) response.write(': keep-alive\n\n');
    cancel = clock.after(keepAliveMs, sendComment);
  };
  cancel = clock.after(keepAliveMs, sendComment);
  return () => cancel();
}

function oneLine(text: string): string {
  return text.replaceAll(/[\r\n\0]/g, ' ');
}
