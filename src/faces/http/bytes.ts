// The bytes of a stream and nothing else, for whoever asks for `application/octet-stream`: what a job printed, as it was, until
// the stream is over. A connection that ends without its last chunk was broken.
import type { ServerResponse } from 'node:http';
import type { StreamItem } from '../../operation.ts';
import { sendProblem, written } from './answer.ts';

export const bytesType = 'application/octet-stream';

export async function sendBytes(
  response: ServerResponse,
  items: AsyncIterable<StreamItem>,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const item of items) {
      if (signal.aborted) break;
      open(response);
      const bytes = item.bytes ?? carried(item.data);
      if (bytes && !(await written(response, bytes))) break;
    }
  } catch (error) {
    if (!response.headersSent) return sendProblem(response, error);
    return void response.destroy();
  }
  if (signal.aborted) return void response.destroy();
  open(response);
  response.end();
}

function open(response: ServerResponse): void {
  if (response.headersSent) return;
  response.writeHead(200, {
    'content-type': bytesType,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-accel-buffering': 'no',
  });
}

/** Items that came over another node have their bytes as base64. */
function carried(data: unknown): Buffer | undefined {
  const { base64 } = (data ?? {}) as { base64?: unknown };
  return typeof base64 === 'string' ? Buffer.from(base64, 'base64') : undefined;
}
