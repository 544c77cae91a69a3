// The limits of the HTTP interface. Each is a setting (`http.<name>`); the configuration defines the defaults.

export interface HttpLimits {
  /** Largest request body, unless a dialect route has its own limit. */
  maxBodyBytes: number;
  /** Calls per second of one key over TCP, and the burst allowed after a pause; 0 means no limit. */
  keyRate: number;
  keyBurst: number;
  /** The same per address, for calls without a valid key. */
  addressRate: number;
  addressBurst: number;
  /** Time for a client to send the headers, and the complete request. */
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  idleTimeoutMs: number;
  /** Open connections in total, per key, and per address while no key was sent. */
  maxConnections: number;
  maxKeyConnections: number;
  maxAddressConnections: number;
  /** Event streams per key; calls and streams per address without a key. */
  maxKeyStreams: number;
  maxAddressCalls: number;
  /** Body bytes of one call without a key, of all such calls together, and of one key. A key over its limit waits. */
  maxAnonymousBodyBytes: number;
  maxAnonymousBytes: number;
  maxKeyBytes: number;
  /** Interval of keep-alive comments on a quiet event stream. */
  sseKeepAliveMs: number;
  /** How long a stop waits for calls in progress. */
  stopTimeoutMs: number;
}

/**
 * Over TCP this is Node's default. On the private socket a caller sends its environment in a header as base64; an
 * environment usually has at most 2 MiB.
 */
export const maxHeaderBytes = { tcp: 16 * 1024, socket: 4 * 1024 * 1024 };
