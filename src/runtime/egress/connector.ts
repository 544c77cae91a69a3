// Opens connections only to checked addresses. The name is resolved once, here, and the result is filtered before the
// socket uses it, so DNS rebinding has no effect.
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

interface Destination {
  /** As in a URL, without brackets. */
  host: string;
  port: number;
  tls: boolean;
  trust: Trust;
  timeoutMs: number;
}

interface ConnectorOptions {
  policy: Policy;
  clock: Clock;
  resolve?: Resolve;
  /** Additional certificates to trust. */
  ca?: string;
}

type OpenCallback = (error: Error | null, socket: Socket | null) => void;

export class Connector {
  private readonly options: ConnectorOptions;
  private readonly sessions = new Map<string, Buffer>();
  private readonly authorities: string[] | undefined;

  constructor(options: ConnectorOptions) {
    this.options = options;
    // Setting `ca` replaces the default authorities, so include them.
    if (options.ca) this.authorities = [...getCACertificates('default'), options.ca];
  }

  /** Calls back once. The returned function cancels the attempt. */
  open(to: Destination, callback: OpenCallback): () => void {
    const refusal = isIP(to.host) === 0 ? undefined : this.refusalFor(to, to.host);
    if (refusal) {
      process.nextTick(callback, refusal, null);
      return () => {};
    }
    const socket = this.start(to);
    let isOver = false;
    const end = (error: Error | null) => {
      if (isOver) return;
      isOver = true;
      stopTimer();
      if (error) socket.destroy();
      callback(error, error ? null : socket);
    };
    const stopTimer = this.options.clock.after(to.timeoutMs, () => end(connectTimeout(to)));
    socket.setNoDelay(true);
    socket.once(to.tls ? 'secureConnect' : 'connect', () =>
      end(to.tls ? this.otherCertificate(to, socket as TLSSocket) : null),
    );
    socket.on('error', end);
    socket.once('close', () => end(new Error('the connection was closed')));
    return () => end(new Error('the connection attempt was cancelled'));
  }

  private start(to: Destination): Socket {
    const { host, port } = to;
    // A literal address never reaches `lookup`. `open` has checked it.
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
      // Then the fingerprint that the operator wrote down is checked instead.
      rejectUnauthorized: this.options.policy.certificateOf(host, port) === undefined,
    });
    socket.on('session', (ticket) => {
      if (this.sessions.size >= maxSessions) this.sessions.clear();
      this.sessions.set(name, ticket);
    });
    return socket;
  }

  /** A certificate that neither an authority signed nor the operator trusts. */
  private otherCertificate({ host, port }: Destination, socket: TLSSocket): Error | null {
    const trusted = this.options.policy.certificateOf(host, port);
    if (trusted === undefined || trusted === 'any' || socket.authorized) return null;
    const { fingerprint256 } = socket.getPeerX509Certificate() ?? {};
    if (fingerprint256?.toLowerCase() === trusted.toLowerCase()) return null;
    const message = `The certificate of ${host}:${port} is not the one in egress.trustCertificates: ${fingerprint256}.`;
    return Object.assign(new Error(message), { code: 'ERR_TLS_CERT_FINGERPRINT' });
  }

  private lookup(to: Destination): LookupFunction {
    const resolve = this.options.resolve ?? systemResolve;
    return (host, options, done) =>
      resolve(host, (error, found) => {
        if (error) return done(error, []);
        const refusals = found.map(({ address }) => this.refusalFor(to, address));
        const open = found.filter((_, i) => !refusals[i]);
        const first = open[0];
        if (!first) return done(refusals[0] ?? new Error(`${host} has no address`), []);
        if (options.all) return done(null, open);
        done(null, first.address, first.family);
      });
  }

  private refusalFor({ host, port, trust }: Destination, address: string): AppError | undefined {
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

const maxSessions = 200;

const systemResolve: Resolve = (host, done) =>
  dnsLookup(host, { all: true }, (error, found) => done(error, found ?? []));

function connectTimeout({ host, port, timeoutMs }: Destination): AppError {
  return new AppError('timeout', `${host}:${port} did not connect within ${timeoutMs} ms.`, {
    data: { phase: 'connect', host, port, timeoutMs },
  });
}
