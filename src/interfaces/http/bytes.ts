// Sends only the bytes of a stream, for clients that accept `application/octet-stream`: job output, unchanged, until the
// stream ends. A connection that closes without the last chunk was interrupted.
import type { ServerResponse } from 'node:http';
import type { StreamItem } from '../../operation.ts';
import { sendProblem } from './problem.ts';
import { writeBytes } from './response.ts';

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
      const bytes = item.bytes ?? decodeBytes(item.data);
      if (bytes && !(await writeBytes(response, bytes))) break;
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

/** Items forwarded from another node carry their bytes as base64. */
function decodeBytes(data: unknown): Buffer | undefined {
  const { base64 } = (data ?? {}) as { base64?: unknown };
  return typeof base64 === 'string' ? Buffer.from(base64, 'base64') : undefined;
}
