// Splits long texts into pieces by byte offset, without splitting characters. Consecutive pieces neither lose nor repeat
// text.
import { bound, jsonBytes } from '../../../runtime/response-budget.ts';

const texts = new Set(['markdown', 'text', 'html', 'raw', 'diff']);

/** Ensures that every piece contains at least one character. */
const minPieceBytes = 40;

/** Cuts every text from the offset, to about `maxJsonBytes` in total. Sets `nextOffset` if more follows. */
function pieceOf<T extends Record<string, unknown>>(
  view: T,
  from: number,
  maxJsonBytes: number,
): T & { nextOffset?: number } {
  const long = Object.entries(view).flatMap(([name, value]) =>
    texts.has(name) && typeof value === 'string' ? [[name, Buffer.from(value)] as const] : [],
  );
  const share = Math.floor(maxJsonBytes / Math.max(long.length, 1));
  const to = from + Math.max(minPieceBytes, share);
  const cut = long.map(([name, bytes]) => [name, between(bytes, from, to)]);
  const isMore = long.some(([, bytes]) => bytes.length > to);
  return { ...view, ...Object.fromEntries(cut), ...(isMore ? { nextOffset: to } : {}) };
}

/**
 * Returns a piece whose JSON fits into `maxJsonBytes`. Escapes make text longer, so the piece is halved until it fits.
 * Other large fields (links) get at most half of the size, and `omitted` reports what is missing.
 */
export function fittingPiece<T extends Record<string, unknown>>(
  view: T,
  {
    from,
    maxBytes,
    maxJsonBytes,
  }: { from: number; maxBytes: number; maxJsonBytes: number | undefined },
): T {
  const asked = maxBytes === Infinity && from === 0 ? view : pieceOf(view, from, maxBytes);
  if (maxJsonBytes === undefined || jsonBytes(asked) <= maxJsonBytes) return asked;
  const isText = ([name, value]: [string, unknown]) => texts.has(name) && typeof value === 'string';
  const entries = Object.entries(view);
  const long = Object.fromEntries(entries.filter(isText));
  const others = Object.fromEntries(entries.filter((entry) => !isText(entry)));
  const small = bound(others, Math.floor(maxJsonBytes / 2));
  const around = { ...(small.value as T), ...(small.omitted ? { omitted: small.omitted } : {}) };
  for (let size = Math.min(maxBytes, maxJsonBytes); ; size = Math.floor(size / 2)) {
    const piece = { ...around, ...pieceOf(long, from, size) };
    if (jsonBytes(piece) <= maxJsonBytes || size <= minPieceBytes) return piece;
  }
}

/** The beginning of a text, up to a byte limit, without splitting a character. */
export function textPiece(text: string, maxJsonBytes: number): string {
  return between(Buffer.from(text), 0, maxJsonBytes);
}

function between(bytes: Buffer, from: number, to: number): string {
  return bytes.toString('utf8', wholeAt(bytes, from), wholeAt(bytes, to));
}

/** The start of the character at this byte. */
function wholeAt(bytes: Buffer, place: number): number {
  let at = Math.min(place, bytes.length);
  while (at > 0 && at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at--;
  return at;
}
