// CardZero's rate limits and their response headers, counted per process as in CardZero. The limits of the HTTP interface
// apply in addition.
import type { DialectRequest } from '../../dialect.ts';
import { systemClock } from '../../runtime/clock.ts';
import { CardzeroFault } from './errors.ts';

export interface Limit {
  name: string;
  calls: number;
  windowMs: number;
  per: 'key' | 'address';
}

const minuteMs = 60_000;

/** Payments, x402 and the four calls that move a job share one limit. */
export const moneyLimit: Limit = { name: 'money', calls: 60, windowMs: minuteMs, per: 'key' };
export const walletLimit: Limit = {
  name: 'wallets',
  calls: 50,
  windowMs: 60 * minuteMs,
  per: 'address',
};
export const reputationLimit: Limit = {
  name: 'reputation',
  calls: 60,
  windowMs: minuteMs,
  per: 'address',
};

export const catalogLimit: Limit = {
  name: 'catalog',
  calls: 120,
  windowMs: minuteMs,
  per: 'address',
};

const maxCallers = 10_000;

export class Limits {
  private readonly windows = new Map<string, { used: number; endsAt: number }>();
  private readonly now: () => number;

  constructor(now: () => number = () => systemClock.now()) {
    this.now = now;
  }

  /** Counts a call. Returns the headers to send, or throws the refusal with these headers. */
  take(limit: Limit, request: Pick<DialectRequest, 'caller' | 'remoteAddress'>) {
    const { caller, remoteAddress } = request;
    const who = limit.per === 'key' && caller ? (caller.keyId ?? caller.owner) : remoteAddress;
    const window = this.windowOf(`${limit.name} ${who}`, limit.windowMs);
    window.used += 1;
    const seconds = Math.ceil((window.endsAt - this.now()) / 1000);
    const headers = {
      'ratelimit-policy': `${limit.calls};w=${limit.windowMs / 1000}`,
      'ratelimit-limit': String(limit.calls),
      'ratelimit-remaining': String(Math.max(limit.calls - window.used, 0)),
      'ratelimit-reset': String(seconds),
    };
    if (window.used <= limit.calls) return headers;
    throw new CardzeroFault({
      status: 429,
      error: 'RATE_LIMITED',
      message: `Rate limit exceeded: ${limit.calls} calls per ${limit.windowMs / 1000} s. Try again in ${seconds} s.`,
      headers: { ...headers, 'retry-after': String(seconds) },
    });
  }

  private windowOf(name: string, windowMs: number): { used: number; endsAt: number } {
    const now = this.now();
    const known = this.windows.get(name);
    if (known && known.endsAt > now) return known;
    if (this.windows.size >= maxCallers) this.windows.clear();
    const window = { used: 0, endsAt: now + windowMs };
    this.windows.set(name, window);
    return window;
  }
}
