// Main content: which blocks of a page a reader came for. The model gives each block a probability;
// the cut is where the expected F1 of the chosen words is highest, so pages of little text and of
// much are treated alike. A table is chosen whole or not at all.
import { pathName, type Block, type Place, type Segments } from './blocks.ts';
import { defaultModel, type Model } from './model.ts';
import type { PageSigns } from './signs.ts';

/** The cut stays between these whatever the expectation says. */
const cutMin = 0.25;
const cutMax = 0.5;
/** How much of a block's score is the mean of its kin: the blocks of the same shape and place. */
const kinShare = 0.7;
/** A block of this many words that was already said is said once. */
const repeatWordsMin = 5;
/** A table is completed when it is chosen to this share. */
const tableShare = 0.5;
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
  const cut = bestCut(blocks, scores, expected);
  const chosen = new Uint8Array(blocks.length);
  const said = new Set<string>();
  for (const { index, words, text } of blocks) {
    if (scores[index]! < cut) continue;
    if (words >= repeatWordsMin && said.has(text)) continue;
    said.add(text);
    chosen[index] = 1;
  }
  completeTables(blocks, chosen);
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

function bestCut(blocks: readonly Block[], scores: Float32Array, expected: number): number {
  const order = blocks.map((_, i) => i).sort((a, b) => scores[b]! - scores[a]!);
  let words = 0;
  let right = 0;
  let best = 0;
  let cut = cutMax;
  for (const i of order) {
    words += blocks[i]!.words;
    right += blocks[i]!.words * scores[i]!;
    const f1 = (2 * right) / (words + expected);
    if (f1 > best) [best, cut] = [f1, scores[i]!];
  }
  return Math.min(Math.max(cut, cutMin), cutMax);
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
