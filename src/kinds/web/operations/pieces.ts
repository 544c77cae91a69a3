// Long texts in pieces: from an offset in bytes, so many bytes, never half a character; pieces that follow each other
// lose and repeat nothing.
import { z } from 'zod';

const texts = new Set(['markdown', 'text', 'html', 'raw', 'diff']);

export const offset = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('Of a long page: go on with its nextOffset');

/** Every text of the view from the offset on, together about so many bytes; `nextOffset` if that was not all. */
export function pieceOf<T extends Record<string, unknown>>(
  view: T,
  from: number,
  bytesMax: number,
): T & { nextOffset?: number } {
  const long = Object.entries(view).flatMap(([name, value]) =>
    texts.has(name) && typeof value === 'string' ? [[name, Buffer.from(value)] as const] : [],
  );
  const to = from + Math.max(200, Math.floor(bytesMax / Math.max(long.length, 1)));
  const cut = long.map(([name, bytes]) => [name, between(bytes, from, to)]);
  const isMore = long.some(([, bytes]) => bytes.length > to);
  return { ...view, ...Object.fromEntries(cut), ...(isMore ? { nextOffset: to } : {}) };
}

/** The first so many bytes, never half a character. */
export function textPiece(text: string, bytesMax: number): string {
  return between(Buffer.from(text), 0, bytesMax);
}

function between(bytes: Buffer, from: number, to: number): string {
  return bytes.toString('utf8', wholeAt(bytes, from), wholeAt(bytes, to));
}

/** The beginning of the character that stands there. */
function wholeAt(bytes: Buffer, place: number): number {
  let at = Math.min(place, bytes.length);
  while (at > 0 && at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at--;
  return at;
}
