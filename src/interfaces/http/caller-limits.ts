// Limits callers over TCP: call rate, open connections, calls and streams, and the memory of request bodies. Limits
// apply per key, or per address for requests without a key.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { BodyMemory } from './body-memory.ts';
import { Connections } from './connections.ts';
import { bodyLimit, type Exchange } from './exchange.ts';
import { OpenCounter } from './open-counter.ts';
import { Buckets } from './rate.ts';
import type { HttpLimits } from './settings.ts';

export class CallerLimits {
  readonly connections: Connections;
  private readonly limits: HttpLimits;
  private readonly bodies: BodyMemory;
  private readonly streams: OpenCounter;
  private readonly anonymous: OpenCounter;
  private readonly keys: Buckets;
  private readonly addresses: Buckets;

  constructor(limits: HttpLimits, clock: Clock) {
    const { keyRate, keyBurst, addressRate, addressBurst } = limits;
    this.limits = limits;
    this.connections = new Connections(limits);
    this.bodies = new BodyMemory(limits);
    this.streams = new OpenCounter(limits.maxKeyStreams, 'http.maxKeyStreams');
    this.anonymous = new OpenCounter(limits.maxAddressCalls, 'http.maxAddressCalls');
    this.keys = new Buckets({ perSecond: keyRate, burst: keyBurst }, clock);
    this.addresses = new Buckets({ perSecond: addressRate, burst: addressBurst }, clock);
  }

  /** Must run before the request body is read. */
  check(exchange: Exchange, isRated = true): void {
    if (isRated) this.checkRate(exchange);
    this.checkConnections(exchange);
  }

  /** Streams of other nodes are not counted here: the node that the caller uses counts them. */
  countStream(exchange: Exchange): void {
    const { caller, local } = exchange;
    if (!local && caller?.keyId !== undefined) this.hold(exchange, this.streams.add(caller.keyId));
  }

  async reserveBody(exchange: Exchange, maxOwnBytes?: number): Promise<void> {
    const { caller, local, request, gone } = exchange;
    const bytes = expectedBytes(request, bodyLimit(exchange, this.limits, maxOwnBytes).maxBytes);
    if (local || bytes === 0) return;
    const key = caller && keyName(caller);
    this.hold(exchange, await this.bodies.reserve(key, bytes, gone.signal));
  }

  /** Releases a reservation when the response is closed. */
  private hold({ response }: Exchange, free: () => void): void {
    if (response.closed) free();
    else response.once('close', free);
  }

  private checkRate(exchange: Exchange): void {
    const { caller, request } = exchange;
    // Workers poll as often as there is work, so their keys are not rate limited.
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
      hint: `Wait ${waitMs} ms and call again. The limit is the setting \`${setting}\`.`,
      data: { retryAfterMs: waitMs, limit: setting },
    });
  }

  /** Keeps one key or address from using up the connections and calls of all others. */
  private checkConnections(exchange: Exchange): void {
    const { caller, request, response } = exchange;
    try {
      if (this.connections.isFull())
        throw new AppError('unavailable', 'All server connections are in use.', {
          hint: 'Try again later. The limit is the setting `http.maxConnections`.',
          data: { limit: 'http.maxConnections', retryAfterMs: 1000 },
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

/** Returns how much memory the body needs. One that is too large needs none: it is rejected without being read. */
function expectedBytes({ headers }: IncomingMessage, maxBytes: number): number {
  const length = headers['content-length'];
  if (length === undefined) return headers['transfer-encoding'] === undefined ? 0 : maxBytes;
  return Number(length) > maxBytes ? 0 : Number(length);
}
