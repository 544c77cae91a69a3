// Looks at the messages of a transport on their way, both ways; where a turn is given they are also changed by it.
import type { Transport } from '@modelcontextprotocol/server';
import type { JsonObject } from './source.ts';

export interface Tap {
  received?(message: JsonObject): void;
  sent?(message: JsonObject): void;
}

export interface Turn {
  /** What comes in instead, when it is known, or nothing at all; undefined: the message as it is. */
  inward(message: JsonObject): Promise<JsonObject | undefined> | undefined;
  outward(message: JsonObject): JsonObject;
}

/** The same transport, with its messages seen by `taps` first, in the form they have beyond the turn. */
export function tapped(transport: Transport, taps: readonly Tap[], turn: Turn): Transport {
  const received = (message: JsonObject) => taps.forEach((tap) => tap.received?.(message));
  const sent = (message: JsonObject) => taps.forEach((tap) => tap.sent?.(message));
  return new Proxy(transport, {
    set: (target, key, value) => {
      const deliver = value as (message: JsonObject, extra: unknown) => void;
      const seen = (message: JsonObject, extra: unknown) => {
        const pass = (turned: JsonObject | undefined) => {
          if (!turned) return;
          received(turned);
          deliver(turned, extra);
        };
        const turning = turn.inward(message);
        if (turning) void turning.then(pass);
        else pass(message);
      };
      return Reflect.set(target, key, key === 'onmessage' && value ? seen : value, target);
    },
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      const bound = value.bind(target) as (...args: unknown[]) => unknown;
      if (key !== 'send') return bound;
      return (message: JsonObject, ...rest: unknown[]) => {
        const done = bound(turn.outward(message), ...rest);
        sent(message);
        return done;
      };
    },
  });
}
