// The limits of the HTTP face, each with its name in the configuration (`http.<name>`), which has the defaults.

export interface HttpLimits {
  /** Largest body of a call, unless a dialect's route has its own. */
  bodyBytesMax: number;
  /** Calls per second of one key over TCP, and how many at once after a pause; 0 is no limit. */
  keyRate: number;
  keyBurst: number;
  /** The same per address, for calls without a valid key. */
  addressRate: number;
  addressBurst: number;
  /** Time for a client to send its headers, and the whole request. */
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  idleTimeoutMs: number;
  /** Open connections in all, of one key, and of one address that has not sent a key on them. */
  connectionsMax: number;
  keyConnectionsMax: number;
  addressConnectionsMax: number;
  /** Event streams of one key; calls and streams of one address without a key. */
  keyStreamsMax: number;
  addressCallsMax: number;
  /** Of a call without a key; of all of them together; of one key. A key that sends more waits. */
  anonymousBodyBytesMax: number;
  anonymousBytesMax: number;
  keyBytesMax: number;
  /** Comments on a silent event stream. */
  sseKeepAliveMs: number;
  /** How long a stop waits for calls that are under way. */
  stopTimeoutMs: number;
}

/**
 * Over TCP as Node has it. On the private socket a caller sends its environment in a header, as base64; a program
 * usually has 2 MiB of it at most.
 */
export const headerBytesMax = { tcp: 16 * 1024, socket: 4 * 1024 * 1024 };
