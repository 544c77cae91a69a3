// Opens connections. The addresses that are checked are the addresses that are connected to: the name is resolved once,
// here, and what the resolver said is filtered before the socket sees it, so a name that changes its mind changes nothing.
import { lookup as dnsLookup, type LookupAddress } from 'node:dns';
import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as tlsConnect, getCACertificates, type TLSSocket } from 'node:tls';
import { AppError } from '../../errors.ts';
import type { Clock } from '../clock.ts';
import type { Policy, Trust } from './policy.ts';

export type Resolve = (
  host: string,
  done: (error: Error | null, addresses: LookupAddress[]) => void,
) => void;

export interface Destination {
  /** As in a URL, without brackets. */
  host: string;
  port: number;
  tls: boolean;
  trust: Trust;
  timeoutMs: number;
}

export interface ConnectorOptions {
  policy: Policy;
  clock: Clock;
  resolve?: Resolve;
  /** Certificates to trust beyond the usual ones. */
  ca?: string;
}

export type Opened = (error: Error | null, socket: Socket | null) => void;

export class Connector {
  private readonly options: ConnectorOptions;
  private readonly sessions = new Map<string, Buffer>();
  private readonly authorities: string[] | undefined;

  constructor(options: ConnectorOptions) {
    this.options = options;
    // Given authorities would replace the usual ones.
    if (options.ca) this.authorities = [...getCACertificates('default'), options.ca];
  }

  /** Calls back once; the returned function gives the attempt up. */
  open(to: Destination, opened: Opened): () => void {
    const refused = isIP(to.host) === 0 ? undefined : this.refused(to, to.host);
    if (refused) {
      process.nextTick(opened, refused, null);
      return () => {};
    }
    const socket = this.start(to);
    let isOver = false;
    const end = (error: Error | null) => {
      if (isOver) return;
      isOver = true;
      stopTimer();
      if (error) socket.destroy();
      opened(error, error ? null : socket);
    };
    const stopTimer = this.options.clock.after(to.timeoutMs, () => end(connectTimeout(to)));
    socket.setNoDelay(true);
    socket.once(to.tls ? 'secureConnect' : 'connect', () => end(null));
    socket.on('error', end);
    socket.once('close', () => end(new Error('the connection was closed')));
    return () => end(new Error('the connection was given up'));
  }

  private start(to: Destination): Socket {
    const { host, port } = to;
    // A name that needs no lookup never reaches `lookup`: it was checked before.
    const base = { host, port, lookup: this.lookup(to), autoSelectFamily: true };
    return to.tls ? this.startTls(to, base) : connect(base);
  }

  private startTls({ host, port }: Destination, base: object): TLSSocket {
    const name = `${host}:${port}`;
    const session = this.sessions.get(name);
    const socket = tlsConnect({
      ...base,
      servername: isIP(host) === 0 ? host.replace(/\.$/, '') : '',
      ALPNProtocols: ['http/1.1'],
      ...(session ? { session } : {}),
      ...(this.authorities ? { ca: this.authorities } : {}),
    });
    socket.on('session', (ticket) => {
      if (this.sessions.size >= sessionsMax) this.sessions.clear();
      this.sessions.set(name, ticket);
    });
    return socket;
  }

  private lookup(to: Destination): LookupFunction {
    const resolve = this.options.resolve ?? systemResolve;
    return (host, options, done) =>
      resolve(host, (error, found) => {
        if (error) return done(error, []);
        const refusals = found.map(({ address }) => this.refused(to, address));
        const open = found.filter((_, i) => !refusals[i]);
        const first = open[0];
        if (!first) return done(refusals[0] ?? new Error(`${host} has no address`), []);
        if (options.all) return done(null, open);
        done(null, first.address, first.family);
      });
  }

  private refused({ host, port, trust }: Destination, address: string): AppError | undefined {
    if (trust === 'trusted') return undefined;
    try {
      this.options.policy.check(host, port, address);
      return undefined;
    } catch (error) {
      if (error instanceof AppError) return error;
      throw error;
    }
  }
}

const sessionsMax = 200;

const systemResolve: Resolve = (host, done) =>
  dnsLookup(host, { all: true }, (error, found) => done(error, found ?? []));

function connectTimeout({ host, port, timeoutMs }: Destination): AppError {
  return new AppError('timeout', `${host}:${port} did not connect within ${timeoutMs} ms.`, {
    data: { phase: 'connect', host, port, timeoutMs },
  });
}
