// Passages of several texts, ranked by BM25 for a question, as many as fit a budget of characters. Pure.
import { termsOf } from '../text/words.ts';

export interface Passage {
  number: number;
  text: string;
}

const passageChars = 700;
const k1 = 1.2;
const b = 0.75;

export function bestPassages(
  question: string,
  texts: readonly Passage[],
  charsMax: number,
): Passage[] {
  const terms = [...new Set(termsOf(question))];
  const pieces = texts.flatMap(({ number, text }) =>
    split(text).map((piece) => ({ number, text: piece })),
  );
  const counted = pieces.map((piece) => ({ piece, words: termsOf(piece.text) }));
  const average =
    counted.reduce((sum, one) => sum + one.words.length, 0) / Math.max(counted.length, 1);
  const rarity = new Map(
    terms.map((term) => {
      const n = counted.filter((one) => one.words.includes(term)).length;
      return [term, Math.log(1 + (counted.length - n + 0.5) / (n + 0.5))];
    }),
  );
  const scored = counted.map(({ piece, words: own }) => {
    const points = terms.reduce((sum, term) => {
      const n = own.filter((word) => word === term).length;
      return (
        sum + (rarity.get(term)! * n * (k1 + 1)) / (n + k1 * (1 - b + (b * own.length) / average))
      );
    }, 0);
    return { piece, points };
  });
  const chosen: Passage[] = [];
  let left = charsMax;
  for (const { piece, points } of scored.toSorted((x, y) => y.points - x.points)) {
    if (points === 0 || piece.text.length > left) continue;
    chosen.push(piece);
    left -= piece.text.length;
  }
  return chosen;
}

function split(text: string): string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const paragraph of text.split(/\n{2,}/)) {
    for (const part of paragraph.match(/[\s\S]{1,700}(?:\s|$)|[\s\S]{1,700}/g) ?? []) {
      if (piece.length + part.length > passageChars && piece !== '') {
        pieces.push(piece.trim());
        piece = '';
      }
      piece += `${part}\n`;
    }
  }
  return [...pieces, piece.trim()].filter(Boolean);
}
