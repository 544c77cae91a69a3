// Chunking of markdown as SearchClaw offers it: fixed sizes, whole sentences, or whole sections. Pure.
type Fields = Record<string, unknown>;

export function chunked(text: string, wish: Fields | undefined): Fields {
  if (!wish?.enabled) return {};
  const size = clamp(Number(wish.max_chunk_size ?? 1000), 50, 10_000);
  const overlap = clamp(Number(wish.overlap ?? 0), 0, Math.floor(size / 2));
  const pieces =
    wish.strategy === 'fixed'
      ? fixed(text, size, overlap)
      : packed(parts(text, wish.strategy), size, overlap);
  return {
    chunks: pieces.map((content, index) => ({ index, content })),
    total_chunks: pieces.length,
  };
}

const clamp = (value: number, min: number, max: number): number =>
  Number.isFinite(value) ? Math.min(Math.max(Math.round(value), min), max) : min;

function fixed(text: string, size: number, overlap: number): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; start += size - overlap)
    pieces.push(text.slice(start, start + size));
  return pieces;
}

function parts(text: string, strategy: unknown): string[] {
  return strategy === 'semantic' ? text.split(/\n(?=#{1,6} )|\n{2,}/) : text.split(/(?<=[.!?])\s+/);
}

function packed(all: readonly string[], size: number, overlap: number): string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const part of all.flatMap((one) => (one.length > size ? fixed(one, size, 0) : [one]))) {
    if (piece !== '' && piece.length + part.length + 1 > size) {
      pieces.push(piece);
      piece = overlap > 0 ? piece.slice(-overlap) : '';
    }
    piece = piece === '' ? part : `${piece}\n${part}`;
  }
  return piece === '' ? pieces : [...pieces, piece];
}
