// How other nodes reach a server that listens on every address of its machine: by one of the machine's own addresses, the
// one it also has towards the database, which all nodes share a network with.
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';

/** What a server listens on that takes calls for all addresses. */
const everywhere = new Set(['0.0.0.0', '::']);

export interface Listening {
  /** How callers on this machine reach it. */
  url: string;
  /** What it was told to listen on. */
  host: string;
  /** Its address as the database sees it; a proxy between them may show another. */
  seenAs?: string | undefined;
}

/** The URL to give to other nodes. Loopback where the machine has nothing else: then all nodes are on it. */
export function nodeUrl(
  { url, host, seenAs }: Listening,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): string {
  if (!everywhere.has(host)) return url;
  const own = Object.values(interfaces)
    .flatMap((list = []) => list)
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .filter((one) => isV4(one) || host === '::');
  const chosen = own.find(({ address }) => address === seenAs) ?? own.find(isV4) ?? own[0];
  if (chosen === undefined) return url;
  const { port } = new URL(url);
  return `http://${isV4(chosen) ? chosen.address : `[${chosen.address}]`}:${port}`;
}

const isV4 = ({ family }: NetworkInterfaceInfo): boolean => family === 'IPv4';
