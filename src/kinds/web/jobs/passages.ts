// Selects the passages of several texts that best match a question, within a character limit. Ranks by BM25 over the
// passage and its headings, with a bonus for matching words that are close together.
import { toPlainText } from '../search/plain.ts';
import { termsOf } from '../search/words.ts';

interface Passage {
  number: number;
  /** Markdown or plain text. */
  text: string;
}

const passageChars = 700;
const k1 = 1.2;
const b = 0.75;
/** Weight of a match in a heading, because it applies to all text below. */
const headingWeight = 2;
/** Maximum bonus for matching words that are close together, as a share of the score. */
const proximityShare = 0.6;
const windowWords = 24;
/** Minimum coverage of the question, relative to the best passage. */
const minCoverage = 0.4;
const stopWords = new Set(
  (
    'a an and are as at be by can could did do does for from had has have how i if in into is it its may me my ' +
    'of on or our shall should so than that the their them then there these they this to us was we were what ' +
    'when where which who whom whose why will with would you your about explain tell find show list give please'
  ).split(' '),
);

interface Piece extends Passage {
  words: string[];
  heading: string[];
}

export function bestPassages(
  question: string,
  texts: readonly Passage[],
  maxChars: number,
): Passage[] {
  const terms = questionTerms(question);
  const pieces = texts.flatMap(split);
  const scored = scores(pieces, terms)
    .filter(({ points }) => points > 0)
    .toSorted((x, y) => y.points - x.points);
  const best = Math.max(0, ...scored.map(({ coverage }) => coverage));
  const chosen: Passage[] = [];
  let left = maxChars;
  for (const { piece, coverage } of scored) {
    if (coverage < minCoverage * best || piece.text.length > left) continue;
    chosen.push({ number: piece.number, text: piece.text });
    left -= piece.text.length;
  }
  return chosen;
}

/** The question's words without stop words, unless it has no others. */
function questionTerms(question: string): string[] {
  const all = [...new Set(termsOf(question))];
  const keywords = all.filter((term) => !stopWords.has(term));
  return keywords.length > 0 ? keywords : all;
}

interface Scored {
  piece: Piece;
  points: number;
  /** Weighted share of the question's words in the passage or its headings. */
  coverage: number;
}

function scores(pieces: readonly Piece[], terms: readonly string[]): Scored[] {
  const counts = pieces.map((piece) => termCounts(piece, terms));
  const rarity = terms.map((_, t) => {
    const n = counts.filter((count) => count[t]! > 0).length;
    return Math.log(1 + (pieces.length - n + 0.5) / (n + 0.5));
  });
  const whole = rarity.reduce((sum, one) => sum + one, 0) || 1;
  const average =
    pieces.reduce((sum, { words }) => sum + words.length, 0) / Math.max(pieces.length, 1) || 1;
  return pieces.map((piece, i) => {
    const length = k1 * (1 - b + (b * piece.words.length) / average);
    let points = 0;
    let covered = 0;
    counts[i]!.forEach((n, t) => {
      points += (rarity[t]! * n * (k1 + 1)) / (n + length);
      if (n > 0) covered += rarity[t]!;
    });
    const coverage = covered / whole;
    const near = proximityShare * closeness(piece.words, terms, rarity, whole);
    return { piece, points: points * (0.5 + 0.5 * coverage) * (1 + near), coverage };
  });
}

function termCounts({ words, heading }: Piece, terms: readonly string[]): number[] {
  return terms.map(
    (term) =>
      words.filter((word) => isForm(word, term)).length +
      headingWeight * heading.filter((word) => isForm(word, term)).length,
  );
}

/** Treats `index` and `indexes`, or `crawl` and `crawling`, as the same word. */
function isForm(word: string, term: string): boolean {
  if (word === term) return true;
  const [short, long] = word.length < term.length ? [word, term] : [term, word];
  return short.length >= 4 && long.startsWith(short) && /^(?:s|es|ed|d|ing)$/.test(long.slice(short.length)); // prettier-ignore
}

/** The largest weighted share of the question's words within a window. 0 for a single word. */
function closeness(
  words: readonly string[],
  terms: readonly string[],
  rarity: readonly number[],
  whole: number,
): number {
  const places = words.flatMap((word, at) => {
    const term = terms.findIndex((one) => isForm(word, one));
    return term < 0 ? [] : [{ at, term }];
  });
  let best = 0;
  for (const [i, { at }] of places.entries()) {
    const near = new Set<number>();
    for (let j = i; j < places.length && places[j]!.at < at + windowWords; j++)
      near.add(places[j]!.term);
    if (near.size < 2) continue;
    let weight = 0;
    for (const term of near) weight += rarity[term]!;
    best = Math.max(best, weight / whole);
  }
  return best;
}

/** Groups paragraphs under the same heading into passages of limited size. */
function split({ number, text }: Passage): Piece[] {
  const pieces: Piece[] = [];
  const path: string[] = [];
  let parts: string[] = [];
  let chars = 0;
  const flush = () => {
    const body = toPlainText(parts.join('\n')).trim();
    const above = path.filter(Boolean).join(' › ');
    if (body !== '') {
      const shown = above === '' ? body : `${above}\n${body}`;
      pieces.push({ number, text: shown, words: termsOf(body), heading: termsOf(above) });
    }
    parts = [];
    chars = 0;
  };
  for (const paragraph of text.replace(/[^\S\n]*¶/g, '').split(/\n{2,}/)) {
    const heading = /^(#{1,6}) +(.*)$/.exec(paragraph);
    if (heading) {
      flush();
      path.length = Math.min(path.length, heading[1]!.length - 1);
      path[heading[1]!.length - 1] = toPlainText(heading[2]!);
      continue;
    }
    for (const part of paragraph.match(/[\s\S]{1,700}(?:\s|$)|[\s\S]{1,700}/g) ?? []) {
      if (chars + part.length > passageChars) flush();
      parts.push(part);
      chars += part.length;
    }
  }
  flush();
  return pieces;
}
