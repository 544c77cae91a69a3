// Who may be reached. Guarded destinations must be public unless the operator's allow list (`egress.allow`) names them:
// a host (`wiki.local`, `*.corp.example`), a host and port (`localhost:3000`, `[::1]:80`), an address or a CIDR.
import ipaddr from 'ipaddr.js';
import { AppError } from '../../errors.ts';
import { addressRefusal, plainAddress } from './address.ts';

/** `trusted`: from the operator's own config, or a job's own loopback port. `guarded`: from anybody or anything else. */
export type Trust = 'trusted' | 'guarded';

export interface EgressPolicy {
  /** Hosts, host:port or CIDRs that guarded requests may reach although they are not public. */
  allow: readonly string[];
}

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

export class Policy {
  private readonly hosts = new Set<string>();
  private readonly suffixes: string[] = [];
  private readonly ranges: Range[] = [];

  constructor({ allow }: EgressPolicy) {
    for (const entry of allow) this.add(entry.trim().toLowerCase());
  }

  /** Refuses, or returns. `host` is as in a URL, without brackets; `address` is what would be connected to. */
  check(host: string, port: number, address: string): void {
    const reason = addressRefusal(address);
    if (reason === undefined || this.allows(host, port, address)) return;
    const where = host === address ? host : `${host} (${address})`;
    const entry = `${ipaddr.IPv6.isValid(host) ? `[${host}]` : host}:${port}`;
    throw refusal(`${where} is ${reason}, which requests from outside may not reach.`, {
      hint: `To allow it, add "${entry}" to \`egress.allow\` in config.json of the server and restart the server.`,
      allow: entry,
      host,
      port,
      address,
    });
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
      throw new AppError('invalidInput', `egress.allow: "${entry}" is no host, port or CIDR.`, {
        hint: 'Write wiki.local, *.corp.example, localhost:3000, [::1]:80, 10.1.2.3 or 10.0.0.0/8.',
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
