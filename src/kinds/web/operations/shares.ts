// Fits the results of several actions into one size limit: short results stay complete, long ones are truncated equally.
import type { ActionResult } from '../browser/actions.ts';
import { textPiece } from './pieces.ts';

export function shareBytes(results: readonly ActionResult[], maxBytes: number): ActionResult[] {
  const share = shareOf(
    results.map((result) => Buffer.byteLength(textOf(result))),
    maxBytes,
  );
  return results.map((result) => {
    const text = textOf(result);
    if (Buffer.byteLength(text) <= share) return result;
    const { data: _long, ...rest } = result;
    return { ...rest, content: textPiece(text, share), truncated: true };
  });
}

function textOf({ content, data }: ActionResult): string {
  return content ?? (data === undefined ? '' : JSON.stringify(data));
}

/** The byte limit for each long result, after the short ones got their full size. */
function shareOf(lengths: readonly number[], maxBytes: number): number {
  let left = maxBytes;
  const sorted = lengths.toSorted((a, b) => a - b);
  for (const [i, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - i));
    if (length > share) return share;
    left -= length;
  }
  return maxBytes;
}
