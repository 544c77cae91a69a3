// Whether a URL of a job answers. A job's own ports on this machine are trusted; anything else goes the guarded way.
import type { Egress } from '../../runtime/egress/index.ts';

/** The HTTP status, or undefined when nobody answered. `ports`: what the job itself listens on. */
export type HttpProbe = (url: string, ports: readonly number[]) => Promise<number | undefined>;

const probeMsMax = 5000;

export function httpProbe(way: Pick<Egress, 'request'>): HttpProbe {
  return async (url, ports) => {
    const trust = isOwnPort(new URL(url), ports) ? 'trusted' : 'guarded';
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

function isOwnPort(url: URL, ports: readonly number[]): boolean {
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  return ownHosts.has(url.hostname) && ports.includes(port);
}

/** The last two are what servers print that listen everywhere. */
const ownHosts = new Set(['127.0.0.1', '[::1]', 'localhost', '0.0.0.0', '[::]']);
