// The context of one call: who calls, from where, and within which limits.
import type { Caller } from './authorization.ts';

/** The caller's folder and environment. A bridge or the CLI sends them, so that commands run where their user works. */
export interface Origin {
  cwd?: string;
  env?: Record<string, string>;
}

/** Resolves a job name, an id prefix or `@last` to the id of a job that the caller may see. */
export interface References {
  resolve(text: string, caller: Caller | undefined): Promise<string>;
}

export interface CallContext {
  /** Undefined for a call without a key. Only operations with scope `public` accept such a call. */
  caller: Caller | undefined;
  /** Aborted when the caller disconnects. Waiting stops; started work continues. */
  signal: AbortSignal;
  origin?: Origin;
  /** Maximum JSON bytes of a response that a model reads. A cursor continues exactly where the response ends. */
  maxResponseBytes?: number;
  /** The idempotency key of the HTTP request. Each job that the request starts gets a key derived from it. */
  idempotencyKey?: string;
  /** The owner passed --allow-private on this machine: addresses in this call may be private. */
  allowPrivate?: true;
  /** Reports the progress of a long call. Set if the caller asked for it. */
  progress?(update: { progress: number; total?: number; message?: string }): void;
}
