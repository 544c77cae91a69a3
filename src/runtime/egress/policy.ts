// Decides which destinations may be reached. Guarded destinations must be public unless the allow list (`egress.allow`)
// names them: a host (`wiki.local`, `*.corp.example`), host and port (`localhost:3000`, `[::1]:80`), address or CIDR.
import ipaddr from 'ipaddr.js';
import { AppError } from '../../errors.ts';
import { addressRefusal, plainAddress } from './address.ts';

/** `trusted`: from the operator's config, or a job's own loopback port. `guarded`: from anything else. */
export type Trust = 'trusted' | 'guarded';

export interface EgressPolicy {
  /** Hosts, host:port or CIDRs that guarded requests may reach even though they are not public. */
  allow: readonly string[];
  /** By host or host:port: the fingerprint of a certificate that no authority signed, or `any`. */
  trustCertificates?: Readonly<Record<string, string>>;
}

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

export class Policy {
  private readonly hosts = new Set<string>();
  private readonly suffixes: string[] = [];
  private readonly ranges: Range[] = [];

  private readonly certificates: ReadonlyMap<string, string>;

  constructor({ allow, trustCertificates = {} }: EgressPolicy) {
    const entries = Object.entries(trustCertificates);
    this.certificates = new Map(entries.map(([host, print]) => [host.toLowerCase(), print]));
    for (const entry of allow) this.add(entry.trim().toLowerCase());
  }

  /** Throws if refused. `host` is as in a URL, without brackets; `address` is the address to connect to. */
  check(host: string, port: number, address: string): void {
    const reason = addressRefusal(address);
    if (reason === undefined || this.allows(host, port, address)) return;
    const where = host === address ? host : `${host} (${address})`;
    const entry = `${ipaddr.IPv6.isValid(host) ? `[${host}]` : host}:${port}`;
    throw refusal(`${where} is ${reason}, which guarded requests may not reach.`, {
      hint: `To allow it, add "${entry}" to \`egress.allow\` in the server's config.json and restart the server.`,
      allow: entry,
      host,
      port,
      address,
    });
  }

  get trustsCertificates(): boolean {
    return this.certificates.size > 0;
  }

  /** The fingerprint, or `any`, by which the operator trusts the certificate of this host. */
  certificateOf(host: string, port: number): string | undefined {
    const name = bareName(host);
    return this.certificates.get(`${name}:${port}`) ?? this.certificates.get(name);
  }

  private allows(host: string, port: number, address: string): boolean {
    const name = bareName(host);
    if (this.hosts.has(name) || this.hosts.has(`${name}:${port}`)) return true;
    if (this.suffixes.some((suffix) => name.endsWith(suffix))) return true;
    const plain = plainAddress(address);
    if (this.hosts.has(plain) || this.hosts.has(`${plain}:${port}`)) return true;
    const parsed = ipaddr.isValid(plain) ? ipaddr.parse(plain) : undefined;
    return parsed !== undefined && this.ranges.some((range) => inRange(parsed, range));
  }

  private add(entry: string): void {
    if (ipaddr.isValidCIDR(entry)) return void this.ranges.push(ipaddr.parseCIDR(entry));
    if (ipaddr.isValid(entry)) return void this.hosts.add(plainAddress(entry));
    if (/^\*\.[\w.-]+$/.test(entry)) return void this.suffixes.push(entry.slice(1));
    const match = /^(?:\[([^\]]+)\]|([\w.-]+))(?::(\d+))?$/.exec(entry);
    if (!match) {
      throw new AppError('invalidInput', `egress.allow: "${entry}" is not a host, port or CIDR.`, {
        hint: 'Use wiki.local, *.corp.example, localhost:3000, [::1]:80, 10.1.2.3 or 10.0.0.0/8.',
      });
    }
    const [, v6, name, port] = match;
    const host = v6 === undefined ? bareName(name!) : plainAddress(v6);
    this.hosts.add(port === undefined ? host : `${host}:${Number(port)}`);
  }
}

export function refusal(
  message: string,
  { hint, ...data }: { hint: string } & Record<string, unknown>,
): AppError {
  return new AppError('egressRefused', message, { hint, data });
}

function inRange(address: ipaddr.IPv4 | ipaddr.IPv6, [base, bits]: Range): boolean {
  if (address instanceof ipaddr.IPv4)
    return base instanceof ipaddr.IPv4 && address.match(base, bits);
  return base instanceof ipaddr.IPv6 && address.match(base, bits);
}

function bareName(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}
