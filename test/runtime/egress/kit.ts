// Egress with test policies, and loopback servers to connect to.
import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Socket } from 'node:net';
import { after } from 'node:test';
import { AppError } from '../../../src/errors.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { createEgress, type EgressOptions } from '../../../src/runtime/egress/index.ts';
import { silentLog } from '../../../src/runtime/log.ts';

export function egressWith(allow: string[], more: Partial<EgressOptions> = {}) {
  const egress = createEgress({ policy: { allow }, clock: systemClock, log: silentLog, ...more });
  after(() => egress.close());
  return egress;
}

export async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

export async function serveRaw(onSocket: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createTcp((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => onSocket(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Echoes the request, or redirects to `to`. */
export async function echoSite() {
  const hits: string[] = [];
  const port = await serve((request, response) => {
    hits.push(`${request.method} ${request.url}`);
    const url = new URL(request.url!, 'http://x');
    const status = Number(url.searchParams.get('status') ?? 302);
    const to = url.searchParams.get('to');
    if (to !== null) return void response.writeHead(status, { location: to }).end('moved');
    if (url.pathname === '/loop') return void response.writeHead(302, { location: '/loop' }).end();
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          method: request.method,
          path: request.url,
          headers: request.headers,
          body,
        }),
      );
    });
  });
  return { port, hits, base: `http://127.0.0.1:${port}` };
}

export interface Echo {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
}

export const code = (expected: string) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, expected, error.message);
  return true;
};
