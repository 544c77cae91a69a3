// The part of a text that speaks most of what was looked for, about two lines long.
import type { TextQuery } from './query.ts';
import { wordsOf } from './words.ts';

const snippetChars = 240;
const placesMax = 500;

export function snippetOf(text: string, { words, phrases }: TextQuery): string {
  const wanted = [...new Set([...phrases, ...words].flat())];
  const places = placesOf(text, wanted);
  let best = { from: 0, score: 0 };
  for (const [i, { at }] of places.entries()) {
    const near = new Set<string>();
    for (let j = i; j < places.length && places[j]!.at < at + snippetChars - 40; j++)
      near.add(places[j]!.word);
    if (near.size > best.score) best = { from: at, score: near.size };
  }
  return cut(text, Math.max(0, Math.min(best.from - 40, text.length - snippetChars)));
}

/** Where the words stand, also with accents and capitals, in order. */
function placesOf(text: string, wanted: readonly string[]): { at: number; word: string }[] {
  const places: { at: number; word: string }[] = [];
  for (const { 0: piece, index } of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    const words = wordsOf(piece);
    for (const word of wanted) {
      const at = words.length === 1 ? 0 : piece.indexOf(word);
      if (at >= 0 && words.includes(word)) places.push({ at: index + at, word });
    }
    if (places.length >= placesMax) break;
  }
  return places.toSorted((a, b) => a.at - b.at);
}

function cut(text: string, from: number): string {
  const start = from === 0 ? 0 : text.indexOf(' ', from) + 1 || from;
  const begin = start - from > 40 ? from : start;
  const piece = text.slice(begin, begin + snippetChars);
  const end = begin + snippetChars < text.length;
  const shown =
    end && piece.lastIndexOf(' ') > snippetChars / 2
      ? piece.slice(0, piece.lastIndexOf(' '))
      : piece;
  return `${begin > 0 ? '…' : ''}${shown.replaceAll(/\s+/g, ' ').trim()}${end ? '…' : ''}`;
}
