// Wraps a transport so that observers see every message; a rewriter may change messages in both directions.
import type { Transport } from '@modelcontextprotocol/server';
import type { JsonObject } from './source.ts';

export interface TransportObserver {
  received?(message: JsonObject): void;
  sent?(message: JsonObject): void;
}

export interface MessageRewriter {
  /** Returns undefined to keep the message, or a promise of its replacement. The promise of undefined drops the message. */
  rewriteIncoming(message: JsonObject): Promise<JsonObject | undefined> | undefined;
  rewriteOutgoing(message: JsonObject): JsonObject;
}

/** Observers see messages in the form that the SDK sees: after incoming and before outgoing rewrites. */
export function observeTransport(
  transport: Transport,
  observers: readonly TransportObserver[],
  rewriter: MessageRewriter,
): Transport {
  const received = (message: JsonObject) =>
    observers.forEach((observer) => observer.received?.(message));
  const sent = (message: JsonObject) => observers.forEach((observer) => observer.sent?.(message));
  return new Proxy(transport, {
    set: (target, key, value) => {
      const deliver = value as (message: JsonObject, extra: unknown) => void;
      const observed = (message: JsonObject, extra: unknown) => {
        const pass = (rewritten: JsonObject | undefined) => {
          if (!rewritten) return;
          received(rewritten);
          deliver(rewritten, extra);
        };
        const replacement = rewriter.rewriteIncoming(message);
        if (replacement) void replacement.then(pass);
        else pass(message);
      };
      return Reflect.set(target, key, key === 'onmessage' && value ? observed : value, target);
    },
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      const bound = value.bind(target) as (...args: unknown[]) => unknown;
      if (key !== 'send') return bound;
      return (message: JsonObject, ...rest: unknown[]) => {
        const done = bound(rewriter.rewriteOutgoing(message), ...rest);
        sent(message);
        return done;
      };
    },
  });
}
