// What both ends of an HTTP exchange do by hand: read a body under a limit, read lines as they come, and wait for a reader
// that is slower than the writer.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../errors.ts';

/** What a client still sends after it was refused is discarded up to this, so that it reads the answer. */
const discardBytesMax = 16 * 1024 * 1024;
/** Where only small bodies are taken, less is discarded: this many times the limit. */
const discardFactor = 16;

export interface BodyLimit {
  bytesMax: number;
  /** The setting that would allow more, where there is one. */
  setting?: string;
}

const nothing = Buffer.alloc(0);

/** A body that is too large is answered at once: a broken connection would not say why. */
export function readBody(request: IncomingMessage, limit: BodyLimit): Promise<Buffer> {
  const length = request.headers['content-length'];
  if (length === undefined && request.headers['transfer-encoding'] === undefined)
    return Promise.resolve(nothing);
  if (Number(length) > limit.bytesMax) {
    discard(request, limit);
    return Promise.reject(tooLarge(limit));
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit.bytesMax) {
        request.off('data', onData);
        discard(request, limit);
        return reject(tooLarge(limit));
      }
      chunks.push(chunk);
    };
    request.on('data', onData);
    request.once('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.once('error', () => reject(cutOff()));
    request.once('close', () => {
      if (!request.complete) reject(cutOff());
    });
  });
}

/** Text of UTF-8 in lines; what follows the last line end is not one yet. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
}

/** Waits until the client has taken what was written; false when it has left. */
export function drained(response: ServerResponse): Promise<boolean> {
  if (response.destroyed || response.req.socket.destroyed) return Promise.resolve(false);
  if (!response.writableNeedDrain) return Promise.resolve(true);
  return new Promise((resolve) => {
    const done = (open: boolean) => {
      response.off('drain', onDrain);
      response.off('close', onClose);
      resolve(open);
    };
    const onDrain = () => done(true);
    const onClose = () => done(false);
    response.once('drain', onDrain);
    response.once('close', onClose);
  });
}

function discard(request: IncomingMessage, { bytesMax }: BodyLimit): void {
  const discardMax = Math.min(discardBytesMax, discardFactor * Math.max(bytesMax, 4096));
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > discardMax) request.destroy();
  });
  request.on('error', () => {});
}

function tooLarge({ bytesMax, setting }: BodyLimit): AppError {
  const named = setting === undefined ? {} : { limit: setting };
  return new AppError('tooLarge', `The body is larger than ${bytesMax} bytes.`, {
    hint: setting
      ? `The setting \`${setting}\` is the limit; send less, or raise it on the server.`
      : 'Send less at once.',
    data: { ...named, bytesMax },
  });
}

function cutOff(): AppError {
  return new AppError('invalidInput', 'The request ended before its body was complete.');
}
