// Finds the part of a text with the most query words, about two lines long.
import type { TextQuery } from './query.ts';
import { wordsOf } from './words.ts';

const snippetChars = 240;
const maxPositions = 500;

export function snippetOf(text: string, { words, phrases }: TextQuery): string {
  const wanted = [...new Set([...phrases, ...words].flat())];
  const positions = findPositions(text, wanted);
  let best = { from: 0, score: 0 };
  for (const [i, { at }] of positions.entries()) {
    const near = new Set<string>();
    for (let j = i; j < positions.length && positions[j]!.at < at + snippetChars - 40; j++)
      near.add(positions[j]!.word);
    if (near.size > best.score) best = { from: at, score: near.size };
  }
  return cutSnippet(text, Math.max(0, Math.min(best.from - 40, text.length - snippetChars)));
}

/** Returns the positions of the words in order, ignoring accents and case. */
function findPositions(text: string, wanted: readonly string[]): { at: number; word: string }[] {
  const positions: { at: number; word: string }[] = [];
  for (const { 0: piece, index } of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    const words = wordsOf(piece);
    for (const word of wanted) {
      const at = words.length === 1 ? 0 : piece.indexOf(word);
      if (at >= 0 && words.includes(word)) positions.push({ at: index + at, word });
    }
    if (positions.length >= maxPositions) break;
  }
  return positions.toSorted((a, b) => a.at - b.at);
}

function cutSnippet(text: string, from: number): string {
  const start = from === 0 ? 0 : text.indexOf(' ', from) + 1 || from;
  const begin = start - from > 40 ? from : start;
  const piece = text.slice(begin, begin + snippetChars);
  const end = begin + snippetChars < text.length;
  const snippet =
    end && piece.lastIndexOf(' ') > snippetChars / 2
      ? piece.slice(0, piece.lastIndexOf(' '))
      : piece;
  return `${begin > 0 ? '…' : ''}${snippet.replaceAll(/\s+/g, ' ').trim()}${end ? '…' : ''}`;
}
