// The limits of callers over TCP: how often they call, how many connections, calls and streams they hold, and how much of
// their bodies is in memory. Per key where there is one, else per address.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { Bodies } from './bodies.ts';
import { Connections } from './connections.ts';
import { bodyLimit, type Exchange } from './exchange.ts';
import { Open } from './open.ts';
import { Buckets } from './rate.ts';
import type { HttpLimits } from './settings.ts';

export class CallerLimits {
  readonly connections: Connections;
  private readonly limits: HttpLimits;
  private readonly bodies: Bodies;
  private readonly streams: Open;
  private readonly anonymous: Open;
  private readonly keys: Buckets;
  private readonly addresses: Buckets;

  constructor(limits: HttpLimits, clock: Clock) {
    const { keyRate, keyBurst, addressRate, addressBurst } = limits;
    this.limits = limits;
    this.connections = new Connections(limits);
    this.bodies = new Bodies(limits);
    this.streams = new Open(limits.keyStreamsMax, 'http.keyStreamsMax');
    this.anonymous = new Open(limits.addressCallsMax, 'http.addressCallsMax');
    this.keys = new Buckets({ perSecond: keyRate, burst: keyBurst }, clock);
    this.addresses = new Buckets({ perSecond: addressRate, burst: addressBurst }, clock);
  }

  /** Before anything is read of the request. */
  check(exchange: Exchange): void {
    this.checkRate(exchange);
    this.checkHolder(exchange);
  }

  /** Streams of other nodes are not counted: they belong to callers who are counted there. */
  countStream(exchange: Exchange): void {
    const { caller, local } = exchange;
    if (!local && caller?.keyId !== undefined) this.hold(exchange, this.streams.add(caller.keyId));
  }

  async reserveBody(exchange: Exchange, ownBytesMax?: number): Promise<void> {
    const { caller, local, request, gone } = exchange;
    const bytes = expectedBytes(request, bodyLimit(exchange, this.limits, ownBytesMax).bytesMax);
    if (local || bytes === 0) return;
    const key = caller && keyName(caller);
    this.hold(exchange, await this.bodies.reserve(key, bytes, gone.signal));
  }

  /** Frees what was counted when the answer is through. */
  private hold({ response }: Exchange, free: () => void): void {
    if (response.closed) free();
    else response.once('close', free);
  }

  private checkRate(exchange: Exchange): void {
    const { caller, request } = exchange;
    // Workers call as often as there is work; they were given their key to do so.
    if (caller?.scopes.has('worker')) return;
    const name = caller ? keyName(caller) : (request.socket.remoteAddress ?? '');
    const buckets = caller ? this.keys : this.addresses;
    const waitMs = buckets.take(name);
    const left = buckets.left(name);
    if (caller && left !== undefined)
      exchange.rate = { perSecond: this.limits.keyRate, burst: this.limits.keyBurst, left };
    if (waitMs === 0) return;
    const setting = caller ? 'http.keyRate' : 'http.addressRate';
    throw new AppError('rateLimited', 'Too many calls in a short time.', {
      hint: `Wait ${waitMs} ms and call again; the setting \`${setting}\` is the limit.`,
      data: { retryAfterMs: waitMs, limit: setting },
    });
  }

  /** No key and no address may take the connections and calls of the others. */
  private checkHolder(exchange: Exchange): void {
    const { caller, request, response } = exchange;
    try {
      if (this.connections.isFull())
        throw new AppError('unavailable', 'All connections of the server are in use.', {
          hint: 'Try again; the setting `http.connectionsMax` is the limit.',
          data: { limit: 'http.connectionsMax', retryAfterMs: 1000 },
        });
      if (caller) this.connections.attribute(request.socket, keyName(caller));
      else this.hold(exchange, this.anonymous.add(request.socket.remoteAddress ?? ''));
    } catch (error) {
      response.setHeader('connection', 'close');
      throw error;
    }
  }
}

const keyName = ({ keyId, owner }: Caller): string => keyId ?? owner;

/** What a body will take in memory; one that is too large is refused unread. */
function expectedBytes({ headers }: IncomingMessage, bytesMax: number): number {
  const length = headers['content-length'];
  if (length === undefined) return headers['transfer-encoding'] === undefined ? 0 : bytesMax;
  return Number(length) > bytesMax ? 0 : Number(length);
}
