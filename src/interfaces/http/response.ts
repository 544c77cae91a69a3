// Writes responses: JSON, text and pieces of a stream.
import type { ServerResponse } from 'node:http';

const jsonType = 'application/json; charset=utf-8';

export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers?: Record<string, string>,
): void {
  const text = JSON.stringify(value ?? null);
  if (headers) return sendText(response, status, text, { 'content-type': jsonType, ...headers });
  if (isOver(response)) return;
  // Most responses: one literal costs less than merged objects.
  response.writeHead(status, {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': Buffer.byteLength(text),
    'content-type': jsonType,
  });
  response.end(text);
}

export function sendText(
  response: ServerResponse,
  status: number,
  text: string | Buffer,
  headers: Record<string, string>,
): void {
  if (isOver(response)) return;
  response.writeHead(status, {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': typeof text === 'string' ? Buffer.byteLength(text) : text.length,
    ...headers,
  });
  response.end(text);
}

/** Nothing can be sent any more. A response that was begun is cut off, so that it does not look complete. */
function isOver(response: ServerResponse): boolean {
  if (!response.headersSent && !response.destroyed) return false;
  response.destroy();
  return true;
}

/** Resolves when the buffer may be reused; false when the client disconnected. */
export function writeBytes(response: ServerResponse, bytes: Buffer): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    const onClose = () => resolve(false);
    response.once('close', onClose);
    response.write(bytes, (error) => {
      response.off('close', onClose);
      resolve(!error);
    });
  });
}
