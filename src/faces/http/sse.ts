// Server-sent events: items of an operation's stream with their ids, comments that keep proxies from closing the line,
// and one last event `end` when the stream is over, so that a client can tell an end from a broken connection.
import type { ServerResponse } from 'node:http';
import { itemData, type StreamItem } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { drained } from '../../runtime/wire.ts';
import { problemOf, sendProblem, written } from './answer.ts';
import { BytesFrame } from './bytes-frame.ts';

export interface SseOptions {
  clock: Clock;
  keepAliveMs: number;
  /** Aborted when the client left or the server stops. */
  signal: AbortSignal;
}

/** A stream that fails this early is answered as a plain error with its status. */
const openWaitMs = 100;
const reconnectMs = 1000;

/** Small items that come at once leave together; a piece this large leaves at once. */
const pieceBytesMax = 16 * 1024;

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
    await Promise.race([first, clock.sleep(openWaitMs, signal)]);
    if (signal.aborted) return void response.destroy();
    open(response);
    await new Line(response, options).pump(iterator, first);
  } catch (error) {
    if (!response.headersSent) return sendProblem(response, error);
    response.end(frame({ event: 'error', data: problemOf(error) }));
  } finally {
    // An iterator that is still waiting ends by the aborted signal; nobody waits for it here.
    void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

export function frame(item: StreamItem): string {
  return `${frameHead(item)}data: ${itemData(item)}\n\n`;
}

function frameHead({ id, event }: StreamItem): string {
  return `${id === undefined ? '' : `id: ${oneLine(id)}\n`}event: ${oneLine(event)}\n`;
}

const endFrame = frame({ event: 'end', data: {} });

class Line {
  private readonly response: ServerResponse;
  private readonly options: SseOptions;
  private readonly bytesFrame = new BytesFrame();
  private piece = '';
  private isDue = false;
  private leave = () => {};

  constructor(response: ServerResponse, options: SseOptions) {
    this.response = response;
    this.options = options;
  }

  async pump(
    iterator: AsyncIterator<StreamItem>,
    first: Promise<IteratorResult<StreamItem>>,
  ): Promise<void> {
    const { response } = this;
    const { signal } = this.options;
    const onAbort = () => this.leave();
    signal.addEventListener('abort', onAbort, { once: true });
    const stopBeat = heartbeat(response, this.options);
    let last: string | undefined;
    try {
      for (let next = first; ; next = iterator.next()) {
        const result = await this.orGone(next);
        if (!result) return void response.end();
        // Some streams say themselves how it ended.
        if (result.done) return void response.end(this.piece + (last === 'end' ? '' : endFrame));
        last = result.value.event;
        if (!(await this.sent(result.value))) return void response.end();
      }
    } catch (error) {
      this.flush();
      throw error;
    } finally {
      this.piece = '';
      stopBeat();
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** False once the client left. */
  private async sent(item: StreamItem): Promise<boolean> {
    const { response } = this;
    const { bytes } = item;
    if (bytes) {
      this.flush();
      const frameBytes = this.bytesFrame.of(frameHead(item), { ...item, bytes });
      return (await this.orGone(written(response, frameBytes))) === true;
    }
    this.send(frame(item));
    if (!response.writableNeedDrain) return true;
    return (await this.orGone(drained(response))) === true;
  }

  private send(text: string): void {
    this.piece += text;
    if (this.piece.length >= pieceBytesMax) return this.flush();
    if (this.isDue) return;
    this.isDue = true;
    setImmediate(() => {
      this.isDue = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.piece === '') return;
    this.response.write(this.piece);
    this.piece = '';
  }

  /** Undefined once the client left. Not a race with one long promise, which would remember every item. */
  private orGone<T>(promise: Promise<T>): Promise<T | undefined> {
    if (this.options.signal.aborted) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.leave = () => resolve(undefined);
      promise.then(resolve, reject);
    });
  }
}

function open(response: ServerResponse): void {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // Asks nginx and its like not to hold events back.
    'x-accel-buffering': 'no',
  });
  response.write(`retry: ${reconnectMs}\n\n`);
}

function heartbeat(response: ServerResponse, { clock, keepAliveMs }: SseOptions): () => void {
  let cancel = () => {};
  const beat = () => {
    if (!response.writableNeedDrain) response.write(': keep-alive\n\n');
    cancel = clock.after(keepAliveMs, beat);
  };
  cancel = clock.after(keepAliveMs, beat);
  return () => cancel();
}

function oneLine(text: string): string {
  return text.replaceAll(/[\r\n\0]/g, ' ');
}
