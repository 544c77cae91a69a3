// Results of many actions within one budget: the short ones whole, the long ones cut alike, each saying so.
import type { ActionResult } from '../browser/actions.ts';
import { textPiece } from './pieces.ts';

export function sharedOut(results: readonly ActionResult[], bytesMax: number): ActionResult[] {
  const share = shareOf(
    results.map((result) => Buffer.byteLength(saidBy(result))),
    bytesMax,
  );
  return results.map((result) => {
    const said = saidBy(result);
    if (Buffer.byteLength(said) <= share) return result;
    const { data: _long, ...rest } = result;
    return { ...rest, content: textPiece(said, share), truncated: true };
  });
}

function saidBy({ content, data }: ActionResult): string {
  return content ?? (data === undefined ? '' : JSON.stringify(data));
}

/** So many bytes for each that is longer, when the shorter ones have what they need. */
function shareOf(lengths: readonly number[], bytesMax: number): number {
  let left = bytesMax;
  const sorted = lengths.toSorted((a, b) => a - b);
  for (const [i, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - i));
    if (length > share) return share;
    left -= length;
  }
  return bytesMax;
}
