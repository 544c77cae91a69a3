// The end of an attempt must be writable: an end that cannot be stored would be tried forever.
import { isDeeperThan } from '../runtime/input-limits.ts';
import type { Outcome } from './kind.ts';

/** More than callers may send: the row of a job wraps it. */
const outcomeDepthMax = 1000;

export function storable(outcome: Outcome): Outcome {
  if (!isDeeperThan(outcome, outcomeDepthMax)) return outcome;
  return {
    type: 'failed',
    error: {
      code: 'resultTooDeep',
      message: `The result is nested deeper than ${outcomeDepthMax} levels.`,
      hint: 'Flatten it, or return it as a string.',
    },
    retry: false,
  };
}
