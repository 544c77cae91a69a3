// Turns a block into tokens for the learned lexicon: names in class and id attributes, and the first words of
// its text. bench/web-quality/train.ts learns the token weights.
import type { Block, Ancestor } from './blocks.ts';

/**
 * Number of text words used. Boilerplate shows in the first words, and prose is judged by its shape, not by
 * its topic.
 */
const maxTextWords = 8;
/** Longer blocks are not judged by single words. */
const maxTextBlockWords = 16;
/** Ancestors up to `nearLevels` count as near, those up to `farLevels` as far. */
export const nearLevels = 3;
export const farLevels = 10;

export interface Lexicon {
  near: ReadonlyMap<string, number>;
  far: ReadonlyMap<string, number>;
  text: ReadonlyMap<string, number>;
}

const nameCache = new Map<string, string[]>();
const maxNameCache = 20_000;

/** Returns the words of an element's class and id, split at hyphens, digits and capitals. */
export function nameWords(ancestor: Ancestor): string[] {
  const { class: names, id } = ancestor.element.attribs;
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
  if (nameCache.size >= maxNameCache) nameCache.clear();
  nameCache.set(key, unique);
  return unique;
}

/** Returns the first words of a short block, and the full text of a very short one. */
export function textWords(block: Block): string[] {
  if (block.words > maxTextBlockWords) return [];
  const words =
    block.text
      .toLowerCase()
      .slice(0, 120)
      .match(/[\p{L}]+|[$€£¥©|•»]/gu) ?? [];
  const first = words.slice(0, maxTextWords);
  if (words.length > 1 && words.length <= 4) first.push(words.join(' '));
  return first;
}

/** Returns the log odds from the names of the ancestors. */
export function nameScore(ancestor: Ancestor, lexicon: Lexicon): number {
  let score = 0;
  let at: Ancestor | undefined = ancestor;
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
