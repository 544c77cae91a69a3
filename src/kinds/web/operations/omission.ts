// Notes about page text that was omitted or hidden.
import type { Omitted } from '../read/types.ts';

const reasons: Record<Exclude<Omitted['reason'], 'selectors'>, string> = {
  outsideMainContent: 'outside the main content',
  insideMainContent:
    'not main content, some of it inside the part that the page marks as its main one',
  notMainContent: 'not main content',
  tooLong: 'beyond the size limit',
};

/** `option`: the option that returns the whole page. */
export function omissionNotes(out: Readonly<Record<string, unknown>>, option: string): string[] {
  const omitted = out.omitted as Omitted | undefined;
  const hiddenWords = (out.hiddenWords as number | undefined) ?? 0;
  const notes: string[] = [];
  // With selectors, the caller knows that the rest is missing.
  if (omitted && omitted.reason !== 'selectors') {
    const percent = Math.max(1, Math.round(100 * omitted.share));
    const whole = omitted.reason.endsWith('MainContent')
      ? ` Use ${option} for the whole page.`
      : '';
    notes.push(
      `[Omitted: ${omitted.words} ${omitted.words === 1 ? 'word' : 'words'} (${percent} % of the page), ${reasons[omitted.reason]}.${whole}]`,
    );
  }
  if (hiddenWords > 0)
    notes.push(`[Hidden: ${hiddenWords} words that are invisible on the page were removed.]`);
  return notes;
}
