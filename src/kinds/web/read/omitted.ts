// Computes how much of a page its text leaves out. Every incomplete result reports it.
import type { Omitted } from './types.ts';

/** Marks, buttons and counters inside the main part. Less than this share of it is not reported. */
const minInsideShare = 0.02;

export function toOmitted(
  pageWords: number,
  words: number,
  reason: Omitted['reason'],
): { omitted?: Omitted } {
  const missing = pageWords - words;
  if (missing <= 0) return {};
  return {
    omitted: { words: missing, share: Math.round((1000 * missing) / pageWords) / 1000, reason },
  };
}

/** `loss` is the number of words missing from the page's main part. */
export function mainContentReason(loss: number, containerWords: number): Omitted['reason'] {
  return loss > minInsideShare * containerWords ? 'insideMainContent' : 'outsideMainContent';
}
