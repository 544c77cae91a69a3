// The limits of the HTTP face, each with its name in the configuration (`http.<name>`) and its default.
import type { Rate } from './rate.ts';

export interface HttpLimits {
  /** Largest body of a call, unless a dialect's route has its own. */
  bodyBytesMax: number;
  /** Per key over TCP. */
  keyRate: Rate;
  /** Per address, for calls without a valid key. */
  addressRate: Rate;
  /** Time for a client to send its headers, and the whole request. */
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  idleTimeoutMs: number;
  connectionsMax: number;
  /** Comments on a silent event stream. */
  sseKeepAliveMs: number;
  /** How long a stop waits for calls that are under way. */
  stopTimeoutMs: number;
}

export const httpLimits: HttpLimits = {
  bodyBytesMax: 10 * 1024 * 1024,
  keyRate: { perSecond: 1000, burst: 2000 },
  addressRate: { perSecond: 20, burst: 60 },
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 120_000,
  idleTimeoutMs: 65_000,
  connectionsMax: 2000,
  sseKeepAliveMs: 15_000,
  stopTimeoutMs: 10_000,
};

/** Over TCP as Node has it; a front on the private socket sends its environment in a header. */
export const headerBytesMax = { tcp: 16 * 1024, socket: 1024 * 1024 };
