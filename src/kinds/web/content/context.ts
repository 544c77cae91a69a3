// The second look: a block beside what the first look thought of its neighbours, of the elements
// above it and of the blocks that share its shape. This is what finds the container of the main
// text and keeps it whole.
import type { Block, Place, Segments } from './blocks.ts';
import { featureNames, headingLevel } from './features.ts';

const added =
  'first firstPrev firstNext firstPrev2 firstNext2 near3 near8 near20 up1 up2 up3 up4 up6 shape pageMean massBefore ' +
  'massAfter section bestBefore bestAfter';
const upLevels = [1, 2, 3, 4, 6];

export const contextNames: readonly string[] = [...featureNames, ...added.split(' ')];

export function withContext(
  segments: Segments,
  rows: Float32Array,
  first: Float32Array,
): Float32Array {
  const { blocks } = segments;
  const from = featureNames.length;
  const to = contextNames.length;
  const wide = new Float32Array(blocks.length * to);
  const sums = prefixSums(blocks, first);
  const shapes = shapeMeans(blocks, first);
  const best = new Map<Place, number>();
  for (const block of blocks) {
    const i = block.index;
    wide.set(rows.subarray(i * from, (i + 1) * from), i * to);
    let at = i * to + from;
    const put = (value: number) => void (wide[at++] = value);
    put(first[i]!);
    for (const step of [-1, 1, -2, 2]) put(first[i + step] ?? -0.1);
    for (const reach of [3, 8, 20]) put(meanAround(sums, i, reach));
    putAbove(put, block, sums, best);
    put(shapes.get(shapeName(block))!);
    const total = sums.mass[blocks.length]!;
    put(total / Math.max(sums.words[blocks.length]!, 1));
    put(sums.mass[i]! / Math.max(total, 1));
    put((total - sums.mass[i + 1]!) / Math.max(total, 1));
    put(sectionMean(blocks, sums, i));
    put(peak(first, i, -1));
    put(peak(first, i, 1));
  }
  return wide;
}

interface Sums {
  /** Running sums over blocks: words, and words times probability. */
  words: Float64Array;
  mass: Float64Array;
}

function prefixSums(blocks: readonly Block[], first: Float32Array): Sums {
  const words = new Float64Array(blocks.length + 1);
  const mass = new Float64Array(blocks.length + 1);
  for (const { index, words: count } of blocks) {
    words[index + 1] = words[index]! + count;
    mass[index + 1] = mass[index]! + count * first[index]!;
  }
  return { words, mass };
}

function meanBetween(sums: Sums, start: number, end: number): number {
  const words = sums.words[end]! - sums.words[start]!;
  return words === 0 ? 0 : (sums.mass[end]! - sums.mass[start]!) / words;
}

/** Around a block but without it. */
function meanAround(sums: Sums, at: number, reach: number): number {
  const start = Math.max(0, at - reach);
  const end = Math.min(sums.words.length - 1, at + reach + 1);
  const words = sums.words[end]! - sums.words[start]! - (sums.words[at + 1]! - sums.words[at]!);
  const mass = sums.mass[end]! - sums.mass[start]! - (sums.mass[at + 1]! - sums.mass[at]!);
  return words <= 0 ? -0.1 : mass / words;
}

function putAbove(
  put: (value: number) => void,
  block: Block,
  sums: Sums,
  known: Map<Place, number>,
): void {
  let place = block.place;
  let level = 0;
  for (const wanted of upLevels) {
    while (level < wanted && place.parent) {
      place = place.parent;
      level++;
    }
    let value = known.get(place);
    if (value === undefined) {
      value = meanBetween(sums, place.firstBlock, place.lastBlock + 1);
      known.set(place, value);
    }
    put(value);
  }
}

function shapeName({ place }: Block): string {
  return `${place.parent?.parent?.shape ?? ''}>${place.parent?.shape ?? ''}>${place.shape}`;
}

function shapeMeans(blocks: readonly Block[], first: Float32Array): Map<string, number> {
  const sums = new Map<string, { words: number; mass: number }>();
  for (const block of blocks) {
    const name = shapeName(block);
    const sum = sums.get(name) ?? { words: 0, mass: 0 };
    sum.words += block.words + 1;
    sum.mass += (block.words + 1) * first[block.index]!;
    sums.set(name, sum);
  }
  return new Map([...sums].map(([name, { words, mass }]) => [name, mass / words]));
}

const sectionBlocksMax = 30;

/**
 * From this block to the next heading of the same or a higher rank: a heading goes where its
 * section goes.
 */
function sectionMean(blocks: readonly Block[], sums: Sums, at: number): number {
  const rank = headingLevel(blocks[at]!);
  if (rank === 0) return -0.1;
  let end = at + 1;
  while (end < blocks.length && end - at < sectionBlocksMax) {
    const level = headingLevel(blocks[end]!);
    if (level > 0 && level <= rank) break;
    end++;
  }
  return meanBetween(sums, at + 1, end);
}

const peakReach = 10;

function peak(first: Float32Array, at: number, step: number): number {
  let most = -0.1;
  for (let i = 1; i <= peakReach; i++) most = Math.max(most, first[at + i * step] ?? -0.1);
  return most;
}
