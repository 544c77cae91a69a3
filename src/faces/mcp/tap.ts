// Looks at the messages of a transport on their way, both ways, without touching them.
import type { Transport } from '@modelcontextprotocol/server';
import type { JsonObject } from './source.ts';

export interface Tap {
  received?(message: JsonObject): void;
  sent?(message: JsonObject): void;
}

/** The same transport, with its messages seen by `taps` first. */
export function tapped(transport: Transport, taps: readonly Tap[]): Transport {
  const received = (message: JsonObject) => taps.forEach((tap) => tap.received?.(message));
  const sent = (message: JsonObject) => taps.forEach((tap) => tap.sent?.(message));
  return new Proxy(transport, {
    set: (target, key, value) => {
      const deliver = value as (message: JsonObject, extra: unknown) => void;
      const seen = (message: JsonObject, extra: unknown) => {
        received(message);
        deliver(message, extra);
      };
      return Reflect.set(target, key, key === 'onmessage' && value ? seen : value, target);
    },
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      const bound = value.bind(target) as (...args: unknown[]) => unknown;
      if (key !== 'send') return bound;
      return (message: JsonObject, ...rest: unknown[]) => {
        const done = bound(message, ...rest);
        sent(message);
        return done;
      };
    },
  });
}
