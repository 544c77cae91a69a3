// Opens connections that carry no HTTP request of ours: tunnels, and checks of a certificate.
import { isIP, type Socket } from 'node:net';
import type { Connector } from './connector.ts';
import { abortError, toFailure } from './failure.ts';
import type { Policy, Trust } from './policy.ts';

export interface SocketRequest {
  host: string;
  port: number;
  trust: Trust;
  timeoutMs?: number;
  signal?: AbortSignal;
}

type SocketLimits = { connectTimeoutMs: number } & Parameters<typeof toFailure>[2];

/** The browser does not show a fingerprint, so it is checked with a connection of its own. */
export async function trustsCertificate(
  policy: Policy,
  connector: Connector,
  limits: SocketLimits,
  url: URL,
): Promise<boolean> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port) || 443;
  const trusted = policy.certificateOf(host, port);
  if (trusted === undefined || trusted === 'any') return trusted !== undefined;
  const to = { host, port, trust: 'guarded' as const, tls: true };
  const socket = await openSocket(connector, limits, to).catch(() => undefined);
  socket?.destroy();
  return socket !== undefined;
}

export function openSocket(
  connector: Connector,
  limits: SocketLimits,
  to: SocketRequest & { tls: boolean },
): Promise<Socket> {
  const { host, port, trust, tls, signal, timeoutMs = limits.connectTimeoutMs } = to;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    const onAbort = () => {
      cancel();
      reject(abortError(signal));
    };
    const cancel = connector.open({ host, port, tls, trust, timeoutMs }, (error, socket) => {
      signal?.removeEventListener('abort', onAbort);
      if (socket) return resolve(socket);
      reject(toFailure(error, `${isIP(host) === 6 ? `[${host}]` : host}:${port}`, limits));
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
