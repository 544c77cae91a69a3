// Main content: which blocks of a page a reader came for. The model gives each block a probability;
// the cut is where the expected F1 of the chosen words is highest, so pages of little text and of
// much are treated alike. Small holes inside chosen text (a table, a list, a quote) are filled.
import { Inside, type Block, type Place, type Segments } from './blocks.ts';
import { defaultModel, type Model } from './model.ts';
import type { PageSigns } from './signs.ts';

/** The cut stays between these whatever the expectation says. */
const cutMin = 0.25;
const cutMax = 0.5;
/** A block of this many words that was already said is said once. */
const repeatWordsMin = 8;
/** A hole is filled when its element is chosen to this share, and with blocks not less likely. */
const wholeShare = 0.8;
const fillMin = 0.12;
const fillWordsMax = 60;
const tableShare = 0.5;
/** Larger tables hold the layout of a page, or can spare a cell. */
const tableWordsMax = 600;
const asides =
  Inside.nav | Inside.aside | Inside.footer | Inside.form | Inside.button | Inside.dialog;
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

export function chooseBlocks(blocks: readonly Block[], scores: Float32Array): Block[] {
  const last = blocks.at(-1);
  if (!last) return [];
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
  fillHoles(blocks, scores, chosen, said);
  completeTables(blocks, chosen);
  return blocks.filter(({ index }) => chosen[index] === 1);
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

function fillHoles(
  blocks: readonly Block[],
  scores: Float32Array,
  chosen: Uint8Array,
  said: ReadonlySet<string>,
): void {
  const words = new Float64Array(blocks.length + 1);
  blocks.forEach((block, i) => {
    words[i + 1] = words[i]! + (chosen[i] === 1 ? block.words : 0);
  });
  let before = -1;
  for (let at = 0; at < blocks.length; at++) {
    if (chosen[at] !== 1) continue;
    if (before >= 0 && at > before + 1) {
      const around = sharedPlace(blocks[before]!.place, blocks[at]!.place);
      const held = around ? words[around.lastBlock + 1]! - words[around.firstBlock]! : 0;
      const hole = blocks[at]!.wordsBefore - blocks[before + 1]!.wordsBefore;
      if (around && hole <= fillWordsMax && held >= wholeShare * around.words) {
        for (let i = before + 1; i < at; i++) {
          if (scores[i]! >= fillMin && isPart(blocks[i]!, around, said)) chosen[i] = 2;
        }
      }
    }
    before = at;
  }
  for (let i = 0; i < chosen.length; i++) if (chosen[i] === 2) chosen[i] = 1;
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

function isPart({ words, text, place }: Block, around: Place, said: ReadonlySet<string>): boolean {
  if (words >= repeatWordsMin && said.has(text)) return false;
  return (place.inside & ~around.inside & asides) === 0;
}

function sharedPlace(one: Place, two: Place): Place | undefined {
  let [a, b]: [Place | undefined, Place | undefined] = [one, two];
  while (a && b && a !== b) {
    if (a.depth > b.depth) a = a.parent;
    else if (b.depth > a.depth) b = b.parent;
    else [a, b] = [a.parent, b.parent];
  }
  return a === b ? a : undefined;
}
