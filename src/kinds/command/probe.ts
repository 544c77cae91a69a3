// Whether a URL of a job answers. A job's own ports on this machine are trusted; anything else goes the guarded way.
import type { Egress } from '../../runtime/egress/index.ts';

/** The HTTP status, or undefined when nobody answered. `ports`: those on this machine that are the job's. */
export type HttpProbe = (url: string, ports: readonly number[]) => Promise<number | undefined>;

const probeMsMax = 5000;

export function httpProbe(way: Pick<Egress, 'request'>): HttpProbe {
  return async (url, ports) => {
    const trust = ports.includes(localPort(url) ?? 0) ? 'trusted' : 'guarded';
    try {
      const limits = { redirects: 0, timeoutMs: probeMsMax, bytesMax: 2 ** 20 };
      const { status, body } = await way.request({ url, trust, ...limits });
      body.discard();
      return status;
    } catch {
      // Not there yet, or not allowed: both are "no answer" for somebody who waits.
      return undefined;
    }
  };
}

/** The port of a URL on this machine. */
export function localPort(text: string): number | undefined {
  const url = new URL(text);
  if (!ownHosts.has(url.hostname)) return undefined;
  return Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
}

/** The last two are what servers print that listen everywhere. */
const ownHosts = new Set(['127.0.0.1', '[::1]', 'localhost', '0.0.0.0', '[::]']);
