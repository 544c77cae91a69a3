// What an IP address is: somewhere on the public internet, or one of the many spellings of somewhere that is not.
import { byName } from '../by-name.ts';
import ipaddr from 'ipaddr.js';

/** Why an address is refused, in words; undefined: public. */
export function addressRefusal(text: string): string | undefined {
  if (!ipaddr.isValid(text)) return 'not an address';
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return v4Refusal(address);
  return v6Refusal(address);
}

/** The plain form of an address: zone dropped, IPv4-mapped IPv6 as IPv4. */
export function plainAddress(text: string): string {
  return ipaddr.isValid(text) ? ipaddr.process(text.replace(/%.*$/, '')).toString() : text;
}

/** Public by number, but answered by the machine's own hoster (Azure's host agent). */
const hosterAddresses = new Set(['168.63.129.16']);

function v4Refusal(address: ipaddr.IPv4): string | undefined {
  if (hosterAddresses.has(address.toString())) return 'a metadata address';
  const range = address.range();
  return range === 'unicast' ? undefined : rangeWords(range);
}

function v6Refusal(address: ipaddr.IPv6): string | undefined {
  const range = address.range();
  if (range === 'ipv4Mapped') return v4Refusal(address.toIPv4Address());
  const bytes = address.toByteArray();
  // NAT64 (64:ff9b::/96) is how a network without IPv4 reaches it: what counts is the address inside.
  if (inPrefix(bytes, nat64)) return v4Refusal(new ipaddr.IPv4(bytes.slice(12)));
  // ISATAP hides an IPv4 address behind an interface id.
  if (isIsatap(bytes)) return 'an IPv4 address in an IPv6 tunnel';
  if (range !== 'unicast') return rangeWords(range);
  // Only 2000::/3 is given out as public; the rest (::/96, fec0::/10, …) is old, local or nothing.
  return (bytes[0]! & 0xe0) === 0x20 ? undefined : 'not a public address';
}

const nat64 = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

function inPrefix(bytes: number[], prefix: number[]): boolean {
  return prefix.every((byte, i) => bytes[i] === byte);
}

function isIsatap(bytes: number[]): boolean {
  const [a, b, c, d] = bytes.slice(8);
  return (a === 0 || a === 2) && b === 0 && c === 0x5e && d === 0xfe;
}

const words: Record<string, string> = byName({
  private: 'a private address',
  uniqueLocal: 'a private address',
  deprecatedSiteLocal: 'a private address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local or metadata address',
  carrierGradeNat: 'a carrier-grade NAT address',
  multicast: 'a multicast address',
  broadcast: 'a broadcast address',
  unspecified: 'the unspecified address',
  '6to4': 'an IPv4 address in an IPv6 tunnel',
  teredo: 'an IPv4 address in an IPv6 tunnel',
  rfc6052: 'an IPv4 address in an IPv6 tunnel',
  rfc6145: 'an IPv4 address in an IPv6 tunnel',
});

function rangeWords(range: string): string {
  return words[range] ?? 'a reserved address';
}
