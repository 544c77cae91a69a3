// Chooses the URL at which other nodes reach a server that listens on all addresses: preferably the machine's own address
// that the database sees, because all nodes share a network with the database.
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';

/** Hosts that mean "listen on all addresses". */
const allAddresses = new Set(['0.0.0.0', '::']);

interface ListenAddress {
  /** The URL for callers on this machine. */
  url: string;
  /** The configured listen address. */
  host: string;
  /** This machine's address as the database sees it. A proxy in between may change it. */
  clientAddress?: string | undefined;
}

/** The URL for other nodes. Loopback if the machine has no other address, because then all nodes are on it. */
export function nodeUrl(
  { url, host, clientAddress }: ListenAddress,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): string {
  if (!allAddresses.has(host)) return url;
  const own = Object.values(interfaces)
    .flatMap((list = []) => list)
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .filter((one) => isV4(one) || host === '::');
  const chosen = own.find(({ address }) => address === clientAddress) ?? own.find(isV4) ?? own[0];
  if (chosen === undefined) return url;
  const { port } = new URL(url);
  return `http://${isV4(chosen) ? chosen.address : `[${chosen.address}]`}:${port}`;
}

const isV4 = ({ family }: NetworkInterfaceInfo): boolean => family === 'IPv4';
