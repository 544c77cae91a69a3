// Writes responses: JSON, text and pieces of a stream.
import type { ServerResponse } from 'node:http';

export const jsonType = 'application/json; charset=utf-8';

export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers?: Record<string, string>,
): void {
  sendText(response, status, JSON.stringify(value ?? null), {
    'content-type': jsonType,
    ...headers,
  });
}

export function sendText(
  response: ServerResponse,
  status: number,
  text: string | Buffer,
  headers: Record<string, string>,
): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  response.writeHead(status, {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': typeof text === 'string' ? Buffer.byteLength(text) : text.length,
    ...headers,
  });
  response.end(text);
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
