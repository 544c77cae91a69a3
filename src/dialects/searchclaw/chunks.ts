// Splits markdown into chunks as SearchClaw does: by size, sentence or section. Pure.
import { byName } from '../../runtime/by-name.ts';
type Fields = Record<string, unknown>;

export function chunked(text: string, options: Fields | null | undefined): Fields {
  if (!options?.enabled) return {};
  const size = Number(options.max_chunk_size ?? 500);
  // With an overlap of more than half, chunks would hardly advance.
  const overlap = Math.min(Number(options.overlap ?? 50), Math.floor(size / 2));
  const strategy = options.strategy ?? 'fixed';
  const pieces =
    strategy === 'fixed'
      ? fixed(text, size, overlap)
      : packed(parts(text, strategy, size), size, overlap);
  const headings = [...text.matchAll(/^#{1,6}[ \t]+(\S.*)$/gm)];
  // The heading at this position, or the last one before it.
  const headingAt = (at: number) => headings.findLast(({ index }) => index <= at)?.[1] ?? null;
  return {
    chunks: pieces.map((piece, index) => ({
      index,
      text: piece.text,
      char_count: piece.text.length,
      metadata: { heading: headingAt(piece.at), position: positionOf(index, pieces.length) },
    })),
    total_chunks: pieces.length,
  };
}

/** A piece of the text and its offset. */
interface Piece {
  at: number;
  text: string;
}

/** Cuts between words if possible. */
function fixed(text: string, size: number, overlap: number): Piece[] {
  const pieces: Piece[] = [];
  for (let at = 0; at < text.length;) {
    const end = at + size < text.length ? gapBefore(text, at, at + size) : text.length;
    pieces.push({ at, text: text.slice(at, end) });
    if (end === text.length) break;
    at = Math.max(end - overlap, at + 1);
  }
  return pieces.filter((piece) => piece.text.trim() !== '');
}

function gapBefore(text: string, from: number, to: number): number {
  const half = from + Math.floor((to - from) / 2);
  for (let at = to; at > half; at--) if (/\s/.test(text[at]!)) return at;
  return to;
}

const breaks: Record<string, RegExp> = byName({
  semantic: /\n(?=#{1,6} )|\n{2,}/g,
  sentence: /(?<=[.!?])\s+/g,
});

/** Splits into sentences, or into sections and paragraphs. Parts that exceed a chunk are split further. */
function parts(text: string, strategy: unknown, size: number): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  const ends = [...text.matchAll(breaks[String(strategy)] ?? breaks.sentence!)];
  for (const [start, end] of [
    ...ends.map(({ index, 0: gap }) => [index, index + gap.length]),
    [text.length, text.length],
  ]) {
    const part = text.slice(at, start);
    const pieces = part.length > size ? fixed(part, size, 0) : [{ at: 0, text: part }];
    for (const piece of pieces) found.push({ at: at + piece.at, text: piece.text });
    at = end!;
  }
  return found.filter((piece) => piece.text.trim() !== '');
}

/** Joins as many parts as fit. The next chunk starts with the last part of the previous one. */
function packed(all: readonly Piece[], size: number, overlap: number): Piece[] {
  const pieces: Piece[] = [];
  let piece: Piece | undefined;
  for (const part of all) {
    if (piece && piece.text.length + part.text.length + 1 > size) {
      pieces.push(piece);
      const room = Math.min(overlap, size - part.text.length - 1);
      const tail: string = room > 0 ? piece.text.slice(-room) : '';
      piece = tail === '' ? undefined : { at: part.at, text: tail };
    }
    piece = piece ? { at: piece.at, text: `${piece.text}\n${part.text}` } : part;
  }
  return piece ? [...pieces, piece] : pieces;
}

function positionOf(index: number, count: number): string {
  return index === 0 ? 'start' : index === count - 1 ? 'end' : 'middle';
}
