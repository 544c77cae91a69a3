// Classifies IP addresses: public, or one of the many spellings of a non-public address.
import { byName } from '../by-name.ts';
import ipaddr from 'ipaddr.js';

/** Why an address is refused; undefined if it is public. */
export function addressRefusal(text: string): string | undefined {
  if (!ipaddr.isValid(text)) return 'not an address';
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return v4Refusal(address);
  return v6Refusal(address);
}

/** The canonical form: without a zone, and IPv4-mapped IPv6 as IPv4. */
export function plainAddress(text: string): string {
  return ipaddr.isValid(text) ? ipaddr.process(text.replace(/%.*$/, '')).toString() : text;
}

/** In a public range, but served by the hosting provider itself (Azure's host agent). */
const providerAddresses = new Set(['168.63.129.16']);

function v4Refusal(address: ipaddr.IPv4): string | undefined {
  if (providerAddresses.has(address.toString())) return 'a metadata address';
  const range = address.range();
  return range === 'unicast' ? undefined : describeRange(range);
}

function v6Refusal(address: ipaddr.IPv6): string | undefined {
  const range = address.range();
  if (range === 'ipv4Mapped') return v4Refusal(address.toIPv4Address());
  const bytes = address.toByteArray();
  // A network without IPv4 uses NAT64 (64:ff9b::/96) to reach it: the embedded address counts.
  if (inPrefix(bytes, nat64)) return v4Refusal(new ipaddr.IPv4(bytes.slice(12)));
  // ISATAP embeds an IPv4 address in the interface id.
  if (isIsatap(bytes)) return 'an IPv4 address in an IPv6 tunnel';
  if (range !== 'unicast') return describeRange(range);
  // Only 2000::/3 is allocated for public use. The rest (::/96, fec0::/10, …) is deprecated, local or unused.
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

const rangeNames: Record<string, string> = byName({
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

function describeRange(range: string): string {
  return rangeNames[range] ?? 'a reserved address';
}
