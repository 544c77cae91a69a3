// What one automatic rule found about a delivery.
import type { Check } from '../work.ts';

/** `later`: no verdict yet, with the reason; the rule is tried again. */
export type Finding =
  | { outcome: 'approved' | 'rejected'; reason: string; checks: Check[] }
  | { outcome: 'later'; reason: string; waits?: boolean };
