// Main content: which blocks of a page a reader came for. The model gives each block a
// probability; the cut is where the expected F1 of the chosen words is highest, so pages of
// little text and of much are treated alike.
import type { Block, Segments } from './blocks.ts';
import { defaultModel, type Model } from './model.ts';
import type { PageSigns } from './signs.ts';

/** The cut stays between these whatever the expectation says. */
const cutMin = 0.25;
const cutMax = 0.5;
/** A block of this many words that was already said is said once. */
const repeatWordsMin = 8;

export function mainBlocks(
  segments: Segments,
  signs: PageSigns,
  model: Model = defaultModel(),
): Block[] {
  return chooseBlocks(segments.blocks, model.score(segments, signs));
}

export function chooseBlocks(blocks: readonly Block[], scores: Float32Array): Block[] {
  const cut = bestCut(blocks, scores);
  const said = new Set<string>();
  return blocks.filter((block, i) => {
    if (scores[i]! < cut) return false;
    if (block.words < repeatWordsMin) return true;
    if (said.has(block.text)) return false;
    said.add(block.text);
    return true;
  });
}

function bestCut(blocks: readonly Block[], scores: Float32Array): number {
  const order = blocks.map((_, i) => i).sort((a, b) => scores[b]! - scores[a]!);
  let expected = 0;
  for (const { index, words } of blocks) expected += words * scores[index]!;
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
