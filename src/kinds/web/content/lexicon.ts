// Words of a block that speak for or against it: names in class and id attributes, and the first
// words of its text. The weights are learned (bench/web-quality/train.ts); here is only how a
// block becomes a bag of tokens.
import type { Block, Place } from './blocks.ts';

/**
 * Text words looked at: boilerplate shows itself early, and prose is judged by shape, not by
 * topic.
 */
const textWordsMax = 8;
/** Longer blocks are not judged by single words at all. */
const textBlockWordsMax = 16;
/** Elements above the block whose own names count as near; above that, up to `farMax`, as far. */
export const nearLevels = 3;
export const farLevels = 10;

export interface Lexicon {
  near: ReadonlyMap<string, number>;
  far: ReadonlyMap<string, number>;
  text: ReadonlyMap<string, number>;
}

const nameCache = new Map<string, string[]>();
const nameCacheMax = 20_000;

/** Words of an element's class and id: split at hyphens, digits and capitals. */
export function nameWords(place: Place): string[] {
  const { class: names, id } = place.element.attribs;
  if (names === undefined && id === undefined) return [];
  const key = `${names ?? ''} ${id ?? ''}`;
  const known = nameCache.get(key);
  if (known) return known;
  const words = key
    .slice(0, 400)
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word.length >= 3 && word.length <= 20);
  const unique = [...new Set(words)].slice(0, 24);
  if (nameCache.size >= nameCacheMax) nameCache.clear();
  nameCache.set(key, unique);
  return unique;
}

/** The first words of a short block, and the whole of a very short one. */
export function textWords(block: Block): string[] {
  if (block.words > textBlockWordsMax) return [];
  const words =
    block.text
      .toLowerCase()
      .slice(0, 120)
      .match(/[\p{L}]+|[$€£¥©|•»]/gu) ?? [];
  const first = words.slice(0, textWordsMax);
  if (words.length > 1 && words.length <= 4) first.push(words.join(' '));
  return first;
}

/** Log odds from names of the elements above. */
export function nameScore(place: Place, lexicon: Lexicon): number {
  let score = 0;
  let at: Place | undefined = place;
  for (let level = 0; at && level < farLevels; level++) {
    if (level < nearLevels) score += at.near ??= sum(nameWords(at), lexicon.near);
    else score += at.far ??= sum(nameWords(at), lexicon.far);
    at = at.parent;
  }
  return clamp(score);
}

export function textScore(block: Block, lexicon: Lexicon): number {
  return clamp(sum(textWords(block), lexicon.text));
}

function sum(words: readonly string[], weights: ReadonlyMap<string, number>): number {
  let total = 0;
  for (const word of words) total += weights.get(word) ?? 0;
  return total;
}

function clamp(value: number): number {
  return Math.max(-6, Math.min(6, value));
}
