// Selects the main content: the blocks a reader came for. The model scores each block with a probability, and
// the threshold maximizes the expected F1 of the selected words. A table is selected completely or not at
// all.
import { pathName, type Block, type Ancestor, type Segments } from './blocks.ts';
import { overlap } from './features.ts';
import { findContainer, type Container } from './container.ts';
import { Inside } from './inside.ts';
import { defaultModel } from './model.ts';
import { mainContentReason } from '../read/omitted.ts';
import type { PageSignals } from './signals.ts';
import type { Omitted } from '../read/types.ts';

/** Score resolution when searching the threshold. */
const steps = 100;
/**
 * The share of a block's score that is the mean score of its kin: the blocks of the same shape and position.
 */
const kinShare = 0.7;
/** A repeated block of at least this many words is included once. */
const minRepeatWords = 5;
/** A table is completed when at least this share of it is selected. */
const tableShare = 0.5;
/**
 * Limits for a first heading to count as the title: its length, and its distance in blocks to the text below.
 */
const maxTitleWords = 30;
const titleReach = 3;
const notTitle = Inside.nav | Inside.footer | Inside.aside | Inside.dialog | Inside.form;
/** Larger tables are page layout, or can miss a cell. */
const maxTableWords = 600;
/**
 * A page with more than `tinyPageWords` words and fewer expected words of main text than this is a frame
 * without content.
 */
const minExpectedWords = 20;
const tinyPageWords = 60;

/** A marked main part is clear when it has at least this share of the page's words. */
const minPartShare = 0.12;
/**
 * A page that is not a document may lose `maxLoss` of a clear main part. Beyond that, the part is included
 * completely, unless the model selected at least `minFoundShare` times as many words.
 */
const maxLoss = 0.9;
const minFoundShare = 0.5;
/** When at least this share of the words outside the main part is in links, they are a list of pages. */
const minListShare = 0.6;

interface MainContent {
  chosen: Block[];
  /** What is left out, and whether it includes a piece of the main part. */
  reason: Omitted['reason'];
}

export function selectMainContent(
  segments: Segments,
  signals: PageSignals,
  score: () => Float32Array = () => defaultModel().score(segments, signals),
): MainContent {
  const { blocks } = segments;
  const container = findContainer(segments, signals.isDocument);
  const isClear = container !== undefined && container.words > minPartShare * segments.words;
  if (signals.isDocument && container && (isClear || isOnlyText(container, blocks)))
    return selectContainer(container, blocks);
  const chosen = withPageTitle(chooseBlocks(blocks, score()), blocks, signals);
  if (!container || container.words === 0) return { chosen, reason: 'notMainContent' };
  let includedWords = 0;
  let found = 0;
  for (const { index, words } of chosen) {
    found += words;
    if (container.included[index] === 1) includedWords += words;
  }
  const loss = container.words - includedWords;
  const isLost =
    isClear && loss > maxLoss * container.words && found < minFoundShare * container.words;
  return isLost
    ? selectContainer(container, blocks)
    : { chosen, reason: mainContentReason(loss, container.words) };
}

/** A short manual page next to a list of all pages: everything outside the marked part is links. */
function isOnlyText({ isMarked, words, included }: Container, blocks: readonly Block[]): boolean {
  if (!isMarked || words === 0) return false;
  let outside = 0;
  let links = 0;
  for (const block of blocks) {
    if (included[block.index] === 1) continue;
    outside += block.words;
    links += block.linkWords;
  }
  return links >= minListShare * outside;
}

function selectContainer({ included }: Container, blocks: readonly Block[]): MainContent {
  return {
    chosen: blocks.filter(({ index }) => included[index] === 1),
    reason: 'outsideMainContent',
  };
}

function chooseBlocks(blocks: readonly Block[], own: Float32Array): Block[] {
  const last = blocks.at(-1);
  if (!last) return [];
  const scores = smoothScores(blocks, own);
  const pageWords = last.wordsBefore + last.words;
  let expected = 0;
  for (const { index, words } of blocks) expected += words * scores[index]!;
  if (expected < minExpectedWords) return pageWords < tinyPageWords ? [...blocks] : [];
  const threshold = bestThreshold(blocks, scores);
  const chosen = new Uint8Array(blocks.length);
  const seenTexts = new Set<string>();
  for (const block of blocks) {
    const { index, words, text } = block;
    if (scores[index]! < threshold) continue;
    if (words >= minRepeatWords && seenTexts.has(text) && mayBeRepeat(block)) continue;
    seenTexts.add(text);
    chosen[index] = 1;
  }
  completeTables(blocks, chosen);
  keepTitles(blocks, chosen);
  return blocks.filter(({ index }) => chosen[index] === 1);
}

/** Rows need all their values, and a heading that also occurs in a table of contents is still a heading. */
function mayBeRepeat({ heading, ancestor }: Block): boolean {
  return heading === 0 && (ancestor.inside & (Inside.table | Inside.pre)) === 0;
}

/** List titles or thread answers are selected together or not at all. */
function smoothScores(blocks: readonly Block[], own: Float32Array): Float32Array {
  const kin = new Map<string, { score: number; words: number }>();
  const sums = blocks.map(({ index, ancestor, words }) => {
    const path = pathName(ancestor);
    const sum = kin.get(path) ?? { score: 0, words: 0 };
    kin.set(path, sum);
    // A block without words counts a little.
    sum.score += own[index]! * (words + 0.01);
    sum.words += words + 0.01;
    return sum;
  });
  return own.map(
    (score, i) => (1 - kinShare) * score + (kinShare * sums[i]!.score) / sums[i]!.words,
  );
}

/**
 * Finds the score threshold with the highest expected F1. The uncertainty on a page is mostly one question
 * (do the cards or the reviews belong to it?), not one per block. It is therefore represented by one unknown
 * strictness between 0 and 1; a block belongs to the text if its score exceeds it. Independent blocks would
 * add up to "half of the cards", which is always wrong.
 */
function bestThreshold(blocks: readonly Block[], scores: Float32Array): number {
  const words = new Float64Array(steps + 2);
  for (const { index, words: own } of blocks) words[Math.floor(scores[index]! * steps)]! += own;
  for (let step = steps; step >= 0; step--) words[step]! += words[step + 1]!;
  let best = 0;
  let threshold = 0;
  for (let step = steps; step >= 0; step--) {
    const chosen = words[step]!;
    if (chosen === words[step + 1]) continue;
    let f1 = 0;
    for (let strict = 0; words[strict]! > 0; strict++)
      f1 += (2 * Math.min(chosen, words[strict]!)) / (chosen + words[strict]!);
    if (f1 > best) [best, threshold] = [f1, step / steps];
  }
  return threshold;
}

/** Keeps a first heading above selected text, even when it looks like a label ("Page 3"). */
function keepTitles(blocks: readonly Block[], chosen: Uint8Array): void {
  const first = chosen.indexOf(1);
  const title = blocks
    .slice(0, Math.max(0, first))
    .findLast(({ heading, words }) => heading === 1 && words <= maxTitleWords);
  if (title && (title.ancestor.inside & notTitle) === 0) chosen[title.index] = 1;
  for (const { index, heading, words } of blocks) {
    if (heading !== 1 || words > maxTitleWords) continue;
    const end = Math.min(blocks.length, index + 1 + titleReach);
    for (let i = index + 1; i < end && blocks[i]!.heading === 0; i++)
      if (chosen[i] === 1) chosen[index] = 1;
  }
}

/** A heading of any level that repeats the page title belongs to the text below it. */
function withPageTitle(chosen: Block[], blocks: readonly Block[], signals: PageSignals): Block[] {
  const first = chosen[0];
  if (!first || first.heading === 1) return chosen;
  const title = blocks
    .slice(0, first.index)
    .findLast(
      ({ heading, words, text, ancestor }) =>
        heading > 0 &&
        words > 1 &&
        words <= maxTitleWords &&
        (ancestor.inside & notTitle) === 0 &&
        overlap(text, signals.titleWords) === 1,
    );
  return title ? [title, ...chosen] : chosen;
}

/** A partial table can mislead, so a mostly selected table is included completely. */
function completeTables(blocks: readonly Block[], chosen: Uint8Array): void {
  const tables = new Map<Ancestor, number>();
  for (const { index, ancestor, words } of blocks) {
    const table = chosen[index] === 1 ? tableAround(ancestor) : undefined;
    if (table) tables.set(table, (tables.get(table) ?? 0) + words);
  }
  for (const [{ words, firstBlock, lastBlock }, includedWords] of tables) {
    if (words <= maxTableWords && includedWords >= tableShare * words)
      chosen.fill(1, firstBlock, lastBlock + 1);
  }
}

function tableAround(ancestor: Ancestor): Ancestor | undefined {
  let at: Ancestor | undefined = ancestor;
  while (at && at.element.name !== 'table') at = at.parent;
  return at;
}
