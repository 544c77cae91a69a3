// Reading a request's body under a limit. A body that is too large is answered at once; what the client still sends is
// thrown away for a while, so that it can read the answer instead of seeing a broken connection.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';

const discardBytesMax = 16 * 1024 * 1024;

export interface BodyLimit {
  bytesMax: number;
  /** The setting that would allow more. */
  setting: string;
}

const nothing = Buffer.alloc(0);

export function readBody(request: IncomingMessage, limit: BodyLimit): Promise<Buffer> {
  const length = request.headers['content-length'];
  if (length === undefined && request.headers['transfer-encoding'] === undefined)
    return Promise.resolve(nothing);
  if (Number(length) > limit.bytesMax) {
    discard(request);
    return Promise.reject(tooLarge(limit));
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit.bytesMax) {
        request.off('data', onData);
        discard(request);
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

/** Only JSON is understood; a missing type is taken as JSON. */
export function checkJsonType(request: IncomingMessage): void {
  const type = request.headers['content-type'];
  if (type === undefined) return;
  const media = type.split(';', 1)[0]!.trim().toLowerCase();
  if (media === 'application/json' || media.endsWith('+json')) return;
  throw new AppError('unsupportedMediaType', `The body is ${media}; only JSON is taken here.`, {
    hint: 'Send `content-type: application/json`.',
  });
}

function discard(request: IncomingMessage): void {
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > discardBytesMax) request.destroy();
  });
  request.on('error', () => {});
}

function tooLarge({ bytesMax, setting }: BodyLimit): AppError {
  return new AppError('tooLarge', `The body is larger than ${bytesMax} bytes.`, {
    hint: `The setting \`${setting}\` is the limit; send less, or raise it on the server.`,
    data: { limit: setting, bytesMax },
  });
}

function cutOff(): AppError {
  return new AppError('invalidInput', 'The request ended before its body was complete.');
}
