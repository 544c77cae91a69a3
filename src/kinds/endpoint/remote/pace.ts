// How often a remote is polled, and how long one step of a row may take.
import type { Remote } from '../spec.ts';

const pollMs = { first: 150, factor: 1.5, max: 5000 };
/** How long a remote may hold a request for chunks. */
export const holdMs = 1000;
export const soonMs = pollMs.first;

export function delayOf(tries: number): number {
  return Math.round(Math.min(pollMs.first * pollMs.factor ** tries, pollMs.max));
}

/** While a step of a row is in progress, no other node takes it. Longer than any call. */
export function stepMsOf({ timeoutMs }: Remote): number {
  return 2 * timeoutMs + holdMs;
}
