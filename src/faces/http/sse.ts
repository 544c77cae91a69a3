// Server-sent events: items of an operation's stream with their ids, comments that keep proxies from closing the line,
// and one last event `end` when the stream is over, so that a client can tell an end from a broken connection.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StreamItem } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { drained, problemOf, sendProblem } from './answer.ts';

export interface SseOptions {
  clock: Clock;
  keepAliveMs: number;
  /** Aborted when the client left or the server stops. */
  signal: AbortSignal;
}

/** A stream that fails this early is answered as a plain error with its status. */
const openWaitMs = 100;
const reconnectMs = 1000;

type Next = IteratorResult<StreamItem>;

export async function sendEvents(
  request: IncomingMessage,
  response: ServerResponse,
  items: AsyncIterable<StreamItem>,
  options: SseOptions,
): Promise<void> {
  const iterator = items[Symbol.asyncIterator]();
  const { signal } = options;
  const gone = new Promise<undefined>((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  try {
    const first = iterator.next();
    first.catch(() => {});
    await Promise.race([first, gone, options.clock.sleep(openWaitMs, signal)]);
    if (signal.aborted) return void response.destroy();
    open(response);
    await pump({ request, response, iterator, first, gone, options });
  } catch (error) {
    if (!response.headersSent) return sendProblem(response, error);
    response.end(frame({ event: 'error', data: problemOf(error) }));
  } finally {
    // An iterator that is still waiting ends by the aborted signal; nobody waits for it here.
    void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

export function frame({ id, event, data }: StreamItem): string {
  const lines = id === undefined ? [] : [`id: ${oneLine(id)}`];
  lines.push(`event: ${oneLine(event)}`, `data: ${JSON.stringify(data ?? null)}`);
  return `${lines.join('\n')}\n\n`;
}

interface Pump {
  request: IncomingMessage;
  response: ServerResponse;
  iterator: AsyncIterator<StreamItem>;
  first: Promise<Next>;
  gone: Promise<undefined>;
  options: SseOptions;
}

async function pump(line: Pump): Promise<void> {
  const { request, response, iterator, gone, options } = line;
  const stopBeat = heartbeat(response, options);
  try {
    let next: Promise<Next> = line.first;
    for (;;) {
      const result = await Promise.race([next, gone]);
      if (!result) return void response.end();
      if (result.done) return void response.end(frame({ event: 'end', data: {} }));
      response.write(frame(result.value));
      if (!(await Promise.race([drained(request, response), gone]))) return void response.end();
      next = iterator.next();
      next.catch(() => {});
    }
  } finally {
    stopBeat();
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
