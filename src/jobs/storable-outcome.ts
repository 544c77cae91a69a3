// Replaces an outcome that cannot be stored with a failure. Otherwise the runner would try to write it forever.
import { isDeeperThan } from '../runtime/input-limits.ts';
import type { Outcome } from './kind.ts';

/** More than callers may send, because the job row adds levels. */
const maxOutcomeDepth = 1000;

export function toStorableOutcome(outcome: Outcome): Outcome {
  if (!isDeeperThan(outcome, maxOutcomeDepth)) return outcome;
  return {
    type: 'failed',
    error: {
      code: 'resultTooDeep',
      message: `The result is nested deeper than ${maxOutcomeDepth} levels.`,
      hint: 'Flatten it, or return it as a string.',
    },
    retry: false,
  };
}
