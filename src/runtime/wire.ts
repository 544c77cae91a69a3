// Low-level HTTP helpers: read a body under a size limit, read lines as they arrive, and wait for slow readers.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../errors.ts';

/** After a rejection, up to this much of the body is discarded so that the client can read the response. */
const maxDiscardBytes = 16 * 1024 * 1024;
/** If only small bodies are accepted, less is discarded: this many times the limit. */
const discardFactor = 16;

export interface BodyLimit {
  maxBytes: number;
  /** The setting that controls the limit, if there is one. */
  setting?: string;
}

export const emptyBody = Buffer.alloc(0);

/** Whether the request announces a body. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

/** A client may send every byte on its own. Each piece costs far more memory than a byte, so pieces are joined as they arrive. */
const maxPieces = 256;

/** Rejects a body that is too large immediately, but keeps the connection: closing it would hide the reason. */
export function readBody(request: IncomingMessage, limit: BodyLimit): Promise<Buffer> {
  if (!hasBody(request)) return Promise.resolve(emptyBody);
  if (Number(request.headers['content-length']) > limit.maxBytes) {
    discard(request, limit);
    return Promise.reject(tooLarge(limit));
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const pieces: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit.maxBytes) {
        request.off('data', onData);
        discard(request, limit);
        return reject(tooLarge(limit));
      }
      pieces.push(chunk);
      if (pieces.length === maxPieces) chunks.push(Buffer.concat(pieces.splice(0)));
    };
    request.on('data', onData);
    request.once('end', () => {
      chunks.push(...pieces);
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    });
    request.once('error', () => reject(incompleteBody()));
    request.once('close', () => {
      if (!request.complete) reject(incompleteBody());
    });
  });
}

/** Splits UTF-8 text into lines. An incomplete last line is not returned. */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array | string>,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
}

/** Resolves when the client has received everything written; false if it disconnected. */
export function waitForDrain(response: ServerResponse): Promise<boolean> {
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

function discard(request: IncomingMessage, { maxBytes }: BodyLimit): void {
  const maxDiscard = Math.min(maxDiscardBytes, discardFactor * Math.max(maxBytes, 4096));
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxDiscard) request.destroy();
  });
  request.on('error', () => {});
}

function tooLarge({ maxBytes, setting }: BodyLimit): AppError {
  const named = setting === undefined ? {} : { limit: setting };
  return new AppError('tooLarge', `The body is larger than ${maxBytes} bytes.`, {
    hint: setting
      ? `Send less, or raise the setting \`${setting}\` on the server.`
      : 'Send a smaller body.',
    data: { ...named, maxBytes },
  });
}

function incompleteBody(): AppError {
  return new AppError('invalidInput', 'The request ended before its body was complete.');
}
