// Main content: which blocks of a page a reader came for. The model gives each block a probability;
// the cut is where the expected F1 of the chosen words is highest. A table is chosen whole or not at all.
import { pathName, type Block, type Place, type Segments } from './blocks.ts';
import { defaultModel, type Model } from './model.ts';
import type { PageSigns } from './signs.ts';

/** Scores are told apart this finely when the cut is looked for. */
const steps = 100;
/** How much of a block's score is the mean of its kin: the blocks of the same shape and place. */
const kinShare = 0.7;
/** A block of this many words that was already said is said once. */
const repeatWordsMin = 5;
/** A table is completed when it is chosen to this share. */
const tableShare = 0.5;
/** A first heading is a title up to this length, and of the text that begins so many blocks after it. */
const titleWordsMax = 30;
const titleReach = 3;
/** Larger tables hold the layout of a page, or can spare a cell. */
const tableWordsMax = 600;
/**
 * Fewer expected words of main text on a page with more than `tinyPageWords`: a frame without a
 * picture.
 */
const expectedWordsMin = 20;
const tinyPageWords = 60;

export function mainBlocks(
  segments: Segments,
  signs: PageSigns,
  model: Model = defaultModel(),
): Block[] {
  return chooseBlocks(segments.blocks, model.score(segments, signs));
}

export function chooseBlocks(blocks: readonly Block[], own: Float32Array): Block[] {
  const last = blocks.at(-1);
  if (!last) return [];
  const scores = evened(blocks, own);
  const pageWords = last.wordsBefore + last.words;
  let expected = 0;
  for (const { index, words } of blocks) expected += words * scores[index]!;
  if (expected < expectedWordsMin) return pageWords < tinyPageWords ? [...blocks] : [];
  const cut = bestCut(blocks, scores);
  const chosen = new Uint8Array(blocks.length);
  const said = new Set<string>();
  for (const { index, words, text } of blocks) {
    if (scores[index]! < cut) continue;
    if (words >= repeatWordsMin && said.has(text)) continue;
    said.add(text);
    chosen[index] = 1;
  }
  completeTables(blocks, chosen);
  keepTitles(blocks, chosen);
  return blocks.filter(({ index }) => chosen[index] === 1);
}

/** The titles of a list or the answers of a thread are chosen together or not at all. */
function evened(blocks: readonly Block[], own: Float32Array): Float32Array {
  const kin = new Map<string, { score: number; words: number }>();
  const sums = blocks.map(({ index, place, words }) => {
    const path = pathName(place);
    const sum = kin.get(path) ?? { score: 0, words: 0 };
    kin.set(path, sum);
    // A block without a word counts a little.
    sum.score += own[index]! * (words + 0.01);
    sum.words += words + 0.01;
    return sum;
  });
  return own.map(
    (score, i) => (1 - kinShare) * score + (kinShare * sums[i]!.score) / sums[i]!.words,
  );
}

/**
 * The score from which on blocks are chosen, so that the expected F1 is highest. What is unsure on a
 * page is mostly one question (do the cards belong to it, the reviews?), not one per block: so a
 * strictness between 0 and 1 is thought of that no one knows, and a block belongs to the text if its
 * score is above it. Blocks judged one by one would add up to "half of the cards", which is always wrong.
 */
function bestCut(blocks: readonly Block[], scores: Float32Array): number {
  const words = new Float64Array(steps + 2);
  for (const { index, words: own } of blocks) words[Math.floor(scores[index]! * steps)]! += own;
  for (let step = steps; step >= 0; step--) words[step]! += words[step + 1]!;
  let best = 0;
  let cut = 0;
  for (let step = steps; step >= 0; step--) {
    const chosen = words[step]!;
    if (chosen === words[step + 1]) continue;
    let f1 = 0;
    for (let strict = 0; words[strict]! > 0; strict++)
      f1 += (2 * Math.min(chosen, words[strict]!)) / (chosen + words[strict]!);
    if (f1 > best) [best, cut] = [f1, step / steps];
  }
  return cut;
}

/** What is said under a first heading is said under it, however like a label it is ("Page 3"). */
function keepTitles(blocks: readonly Block[], chosen: Uint8Array): void {
  for (const { index, heading, words } of blocks) {
    if (heading !== 1 || words > titleWordsMax) continue;
    const end = Math.min(blocks.length, index + 1 + titleReach);
    for (let i = index + 1; i < end && blocks[i]!.heading === 0; i++)
      if (chosen[i] === 1) chosen[index] = 1;
  }
}

/** A table in parts says something else than the table: mostly chosen, it is chosen whole. */
function completeTables(blocks: readonly Block[], chosen: Uint8Array): void {
  const tables = new Map<Place, number>();
  for (const { index, place, words } of blocks) {
    const table = chosen[index] === 1 ? tableAround(place) : undefined;
    if (table) tables.set(table, (tables.get(table) ?? 0) + words);
  }
  for (const [{ words, firstBlock, lastBlock }, held] of tables) {
    if (words <= tableWordsMax && held >= tableShare * words)
      chosen.fill(1, firstBlock, lastBlock + 1);
  }
}

function tableAround(place: Place): Place | undefined {
  let at: Place | undefined = place;
  while (at && at.element.name !== 'table') at = at.parent;
  return at;
}
