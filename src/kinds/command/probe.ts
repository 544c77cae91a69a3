// Checks whether a URL of a job responds. A job's own local ports are trusted; other addresses use guarded egress.
import type { Egress } from '../../runtime/egress/index.ts';

/** Returns the HTTP status, or undefined without a response. `ports`: local ports that belong to the job. */
export type HttpProbe = (url: string, ports: readonly number[]) => Promise<number | undefined>;

const maxProbeMs = 5000;

export function httpProbe(way: Pick<Egress, 'request'>): HttpProbe {
  return async (url, ports) => {
    const trust = ports.includes(localPort(url) ?? 0) ? 'trusted' : 'guarded';
    try {
      const limits = { redirects: 0, timeoutMs: maxProbeMs, maxBytes: 2 ** 20 };
      const { status, body } = await way.request({ url, trust, ...limits });
      body.discard();
      return status;
    } catch {
      // Not reachable or not allowed: both mean that the condition is not met yet.
      return undefined;
    }
  };
}

/** The port of a URL on this machine; undefined for other hosts. */
export function localPort(text: string): number | undefined {
  const url = new URL(text);
  if (!ownHosts.has(url.hostname)) return undefined;
  return Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
}

/** Servers that listen on all interfaces print the last two. */
const ownHosts = new Set(['127.0.0.1', '[::1]', 'localhost', '0.0.0.0', '[::]']);
