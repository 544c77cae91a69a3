// Sends an operation stream over a WebSocket: one message `{event, id, data}` per item. An error that occurs before the
// first item gets a plain error response; a later one is the last message.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { itemLine, type StreamItem } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { toProblem } from './problem.ts';
import { earlyErrorMs } from './sse.ts';
import { sendMessages } from './websocket.ts';

export async function sendItems(
  request: IncomingMessage,
  socket: Duplex,
  items: AsyncIterable<StreamItem>,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const iterator = items[Symbol.asyncIterator]();
  const first = iterator.next();
  first.catch(() => {});
  await Promise.race([first, clock.sleep(earlyErrorMs, signal)]);
  await sendMessages(request, socket, withError(iterator, first), {
    signal,
    encode: (item) => itemLine(item as StreamItem).trimEnd(),
  });
}

async function* withError(
  iterator: AsyncIterator<StreamItem>,
  first: Promise<IteratorResult<StreamItem>>,
): AsyncGenerator<StreamItem, string> {
  try {
    for (let next = first; ; next = iterator.next()) {
      const result = await next;
      if (result.done) return 'end';
      yield result.value;
    }
  } catch (error) {
    yield { event: 'error', data: toProblem(error) };
    return 'error';
  } finally {
    void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
