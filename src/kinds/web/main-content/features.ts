// Computes the block features that separate main content from the rest, in a fixed order (`featureNames`):
// own text, position in the tree, ancestors, neighbours, and the page. All are scale-free or logarithmic and
// independent of the site, so that the model generalizes to other pages.
import { pathName, type Block, type Ancestor, type Segments } from './blocks.ts';
import { nameFamilyNames, textFamilyNames } from './families.ts';
import { FeatureWriter } from './feature-writer.ts';
import { familyBits, familyNames, findFamilies, type Families } from './family-features.ts';
import { Inside } from './inside.ts';
import {
  findGroups,
  groupNames,
  groupNumbers,
  countSimilarSiblings,
  type Groups,
} from './group-features.ts';
import { nameScore, type Lexicon } from './lexicon.ts';
import { scoreNames, scoreNumbers, textScores } from './score-features.ts';
import { log, pageNumbers, signedLog } from './page-features.ts';
import type { PageSignals } from './signals.ts';

const levels = [1, 2, 3, 5];

const ofContainer = list(
  'Words LinkDensity Commas Share Paragraphs Twins Blocks Images Headings Prices Inputs',
);
const container = levels.flatMap((level) => ofContainer.map((name) => `up${level}${name}`));

/** In the order in which the functions below write them. */
export const featureNames: readonly string[] = [
  ...list(
    'words charsPerWord linkDensity links stops commas endsSentence digits uppers heading tag ' +
      'price date copyright separator colon titleOverlap descriptionOverlap repeats',
  ),
  ...list(
    'position wordPosition fromEnd depth afterTitle titleDistance headingDistance headingWords',
  ),
  ...Object.keys(Inside).map((name) => `in-${name}`),
  ...container,
  ...list('pathCount pathWords pathLinkDensity pathSpread topShare topDistance topDepth'),
  ...list('titleDepth titleShare ldOverlap'),
  ...groupNames,
  ...list(
    'prevWords prevLinkDensity prevHeading nextWords nextLinkDensity nextHeading prev2Words ' +
      'next2Words prev2LinkDensity next2LinkDensity windowWords windowLinkDensity windowCommas ' +
      'wideWords wideLinkDensity',
  ),
  ...list(
    'pageWords pageLinkDensity pageParagraphShare pageBlocks pageArticles pageHasMain ' +
      'pageArticle pageProduct pageForum pageList pagePrices pageReplies pageCode ' +
      'pageImages pageInputs',
  ),
  ...familyNames,
  ...scoreNames,
];

function list(names: string): string[] {
  return names.split(' ');
}

const insideBits = Object.values(Inside);

export interface BlockFeatures {
  rows: Float32Array;
  context: Context;
  blocks: readonly Block[];
}

/**
 * Returns one flat row per block. The lexicon columns are still empty. `blocks` selects the blocks to
 * describe.
 */
export function describeBlocks(
  segments: Segments,
  signals: PageSignals,
  blocks: readonly Block[] = segments.blocks,
): BlockFeatures {
  const rows = new Float32Array(blocks.length * featureNames.length);
  const context = newContext(segments, signals);
  blocks.forEach((block, i) => {
    const writer = new FeatureWriter(rows, i * featureNames.length);
    writeOwn(writer, block, context);
    writePosition(writer, block, context);
    for (const bit of insideBits) writer.put((block.ancestor.inside & bit) === 0 ? 0 : 1);
    writeContainers(writer, block, context);
    writeKin(writer, block, context);
    writeTitle(writer, block, context);
    writer.putAll(groupNumbers(context.groups, block.index, block.ancestor));
    writeNeighbours(writer, block, context);
    writer.putAll(context.page);
    const { heading, over } = headingsOf(block, context);
    const { names, texts } = familyBits(context.families, block, heading, over);
    for (const bits of names) writer.putBits(bits, nameFamilyNames.length);
    for (const bits of texts) writer.putBits(bits, textFamilyNames.length);
  });
  return { rows, context, blocks };
}

/** Fills the lexicon columns, which are the last ones of each row. */
export function withLexicon(
  { rows, context, blocks }: BlockFeatures,
  lexicon: Lexicon,
): Float32Array {
  const at = featureNames.length - scoreNames.length;
  const texts = textScores(context.segments.blocks, lexicon);
  blocks.forEach((block, i) => {
    const { heading, over } = headingsOf(block, context);
    rows.set(
      scoreNumbers(block, nameScore(block.ancestor, lexicon), texts, { heading, over }),
      i * featureNames.length + at,
    );
  });
  return rows;
}

/** Returns the indexes of a block's heading and of the heading above its group; -1 for none. */
function headingsOf({ index }: Block, { headingAt, groups }: Context) {
  const first = groups.outer[index]?.parent?.firstBlock ?? index;
  return { heading: headingAt[index]!, over: first === 0 ? -1 : headingAt[first - 1]! };
}

interface Context {
  segments: Segments;
  signals: PageSignals;
  repeats: Map<string, number>;
  paths: Map<string, PathSum>;
  pathOf: string[];
  titleAt: number;
  headingAt: Int32Array;
  top: Ancestor | undefined;
  groups: Groups;
  families: Families;
  page: number[];
}

interface PathSum {
  count: number;
  words: number;
  linkWords: number;
  first: number;
  last: number;
}

function newContext(segments: Segments, signals: PageSignals): Context {
  const { blocks } = segments;
  const repeats = new Map<string, number>();
  const paths = new Map<string, PathSum>();
  const pathOf: string[] = [];
  const headingAt = new Int32Array(blocks.length).fill(-1);
  let lastHeading = -1;
  for (const block of blocks) {
    if (block.heading > 0) lastHeading = block.index;
    headingAt[block.index] = lastHeading;
    repeats.set(block.text, (repeats.get(block.text) ?? 0) + 1);
    const path = pathName(block.ancestor);
    pathOf.push(path);
    const sum = paths.get(path) ?? {
      count: 0,
      words: 0,
      linkWords: 0,
      first: block.index,
      last: 0,
    };
    sum.count++;
    sum.words += block.words;
    sum.linkWords += block.linkWords;
    sum.last = block.index;
    paths.set(path, sum);
  }
  const context = { segments, signals, repeats, paths, pathOf, headingAt, page: [] as number[] };
  return {
    ...context,
    titleAt: titleIndex(blocks, signals),
    top: mainTextAncestor(blocks),
    groups: findGroups(segments),
    families: findFamilies(segments),
    page: pageNumbers(segments, signals),
  };
}

/**
 * Finds the page title among the blocks: the first h1 that shares words with the title, otherwise the first
 * h1.
 */
function titleIndex(blocks: readonly Block[], signals: PageSignals): number {
  let first = -1;
  for (const block of blocks) {
    if (block.heading !== 1) continue;
    if (first < 0) first = block.index;
    if (overlap(block.text, signals.titleWords) > 0.5) return block.index;
  }
  return first;
}

/**
 * Finds the smallest element that contains most of the running text (as Readability does, without its class
 * lists).
 */
function mainTextAncestor(blocks: readonly Block[]): Ancestor | undefined {
  const scores = new Map<Ancestor, number>();
  for (const block of blocks) {
    if (block.words < 10 || block.linkWords * 2 > block.words) continue;
    const value = Math.min(block.words, 60) + 5 * block.commas;
    let weight = 1;
    let at: Ancestor | undefined = block.ancestor;
    for (let level = 0; at && level < 5; level++) {
      if (level > 0) scores.set(at, (scores.get(at) ?? 0) + value * weight);
      if (level > 0) weight *= 0.6;
      at = at.parent;
    }
  }
  let best: Ancestor | undefined;
  let most = 0;
  for (const [ancestor, score] of scores) {
    const value = score * (1 - ancestor.linkWords / Math.max(ancestor.words, 1));
    if (value > most) [best, most] = [ancestor, value];
  }
  return best;
}

const tagOrder =
  'p pre blockquote h1 h2 h3 h4 h5 h6 li dd dt td th figcaption caption div section article ' +
  'summary span label button legend address header footer nav aside form a body html';
const tagNumbers = new Map(tagOrder.split(' ').map((tag, index) => [tag, index + 1]));

const datePattern = new RegExp(
  [
    String.raw`\b(?:19|20)\d\d\b`,
    String.raw`\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b`,
    String.raw`\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}\b`,
    String.raw`\bago\b`,
  ].join('|'),
  'i',
);
const copyrightPattern = /©|\(c\)|copyright|all rights reserved/i;

function writeOwn(writer: FeatureWriter, block: Block, context: Context): void {
  const { text, words } = block;
  const chars = Math.max(text.length, 1);
  const short = words <= 40 ? text : text.slice(0, 300);
  writer.put(log(words));
  writer.put(block.letters / Math.max(words, 1));
  writer.put(density(block));
  writer.put(log(block.links));
  writer.put(block.stops / Math.max(words, 1));
  writer.put(block.commas / Math.max(words, 1));
  writer.put(/[.!?。！？:;"”)]$/.test(text) ? (/[.!?。！？]$/.test(text) ? 2 : 1) : 0);
  writer.put(block.digits / chars);
  writer.put(block.uppers / Math.max(block.letters, 1));
  writer.put(block.heading);
  writer.put(tagNumbers.get(block.ancestor.element.name) ?? 0);
  writer.put(block.price ? 1 : 0);
  writer.put(datePattern.test(short) ? 1 : 0);
  writer.put(copyrightPattern.test(short) ? 1 : 0);
  writer.put(/[|»›•·]/.test(short) ? 1 : 0);
  writer.put(text.includes(':') ? 1 : 0);
  writer.put(words <= 60 ? overlap(text, context.signals.titleWords) : 0);
  writer.put(words <= 120 ? overlap(text, context.signals.descriptionWords) : 0);
  writer.put(log(context.repeats.get(text) ?? 1));
}

function writePosition(writer: FeatureWriter, block: Block, context: Context): void {
  const { segments, titleAt, headingAt } = context;
  const { blocks } = segments;
  const heading = headingAt[block.index]!;
  writer.put(block.index / blocks.length);
  writer.put(block.wordsBefore / Math.max(segments.words, 1));
  writer.put(log(blocks.length - block.index));
  writer.put(Math.min(block.ancestor.depth, 40));
  writer.put(titleAt < 0 ? 0 : block.index > titleAt ? 2 : block.index === titleAt ? 1 : -1);
  writer.put(titleAt < 0 ? -10 : signedLog(block.index - titleAt));
  writer.put(heading < 0 ? 10 : log(block.index - heading));
  writer.put(heading < 0 ? 0 : log(block.wordsBefore - blocks[heading]!.wordsBefore));
}

function writeContainers(writer: FeatureWriter, block: Block, context: Context): void {
  let at: Ancestor = block.ancestor;
  let level = 0;
  for (const wanted of levels) {
    while (level < wanted && at.parent) {
      at = at.parent;
      level++;
    }
    const words = Math.max(at.words, 1);
    writer.put(log(at.words));
    writer.put(at.linkWords / words);
    writer.put(at.commas / words);
    writer.put(at.words / Math.max(context.segments.words, 1));
    writer.put(log(at.paragraphs));
    writer.put(log(countSimilarSiblings(at)));
    const count = at.lastBlock - at.firstBlock + 1;
    writer.put(log(count));
    writer.put(at.images / count);
    writer.put(at.headings / count);
    writer.put(at.prices / count);
    writer.put(at.inputs / count);
  }
}

function writeTitle(
  writer: FeatureWriter,
  block: Block,
  { segments, signals, titleAt }: Context,
): void {
  const title = segments.blocks[titleAt];
  const shared = title ? sharedAncestor(block.ancestor, title.ancestor) : undefined;
  writer.put(title && shared ? shared.depth / title.ancestor.depth : -1);
  writer.put(shared ? shared.words / Math.max(segments.words, 1) : -1);
  writer.put(block.words <= 120 ? overlap(block.text, signals.dataWords) : 0);
}

function writeKin(writer: FeatureWriter, block: Block, context: Context): void {
  const sum = context.paths.get(context.pathOf[block.index]!)!;
  writer.put(log(sum.count));
  writer.put(log(sum.words / sum.count));
  writer.put(sum.linkWords / Math.max(sum.words, 1));
  writer.put((sum.last - sum.first) / context.segments.blocks.length);
  const { top } = context;
  if (!top) {
    writer.put(0);
    writer.put(30);
    writer.put(0);
    return;
  }
  const inTop = block.index >= top.firstBlock && block.index <= top.lastBlock;
  const away =
    block.index < top.firstBlock ? block.index - top.firstBlock : block.index - top.lastBlock;
  writer.put(top.words / Math.max(context.segments.words, 1));
  writer.put(inTop ? 0 : signedLog(away));
  writer.put((sharedAncestor(block.ancestor, top)?.depth ?? 0) / top.depth);
}

function sharedAncestor(ancestor: Ancestor, other: Ancestor): Ancestor | undefined {
  let a: Ancestor | undefined = ancestor;
  let b: Ancestor | undefined = other;
  while (a && b && a !== b) {
    if (a.depth > b.depth) a = a.parent;
    else if (b.depth > a.depth) b = b.parent;
    else [a, b] = [a.parent, b.parent];
  }
  return a === b ? a : undefined;
}

function writeNeighbours(writer: FeatureWriter, block: Block, context: Context): void {
  const { blocks } = context.segments;
  const at = block.index;
  const [prev, next] = [blocks[at - 1], blocks[at + 1]];
  const [prev2, next2] = [blocks[at - 2], blocks[at + 2]];
  for (const near of [prev, next]) {
    writer.put(near ? log(near.words) : -1);
    writer.put(near ? density(near) : -1);
    writer.put(near ? near.heading : -1);
  }
  writer.put(prev2 ? log(prev2.words) : -1);
  writer.put(next2 ? log(next2.words) : -1);
  writer.put(prev2 ? density(prev2) : -1);
  writer.put(next2 ? density(next2) : -1);
  writeWindow(writer, blocks, at, { reach: 4, commas: true });
  writeWindow(writer, blocks, at, { reach: 12, commas: false });
}

function writeWindow(
  writer: FeatureWriter,
  blocks: readonly Block[],
  at: number,
  { reach, commas }: { reach: number; commas: boolean },
): void {
  let words = 0;
  let linkWords = 0;
  let commaCount = 0;
  const end = Math.min(blocks.length - 1, at + reach);
  for (let i = Math.max(0, at - reach); i <= end; i++) {
    const near = blocks[i]!;
    words += near.words;
    linkWords += near.linkWords;
    commaCount += near.commas;
  }
  writer.put(log(words));
  writer.put(linkWords / Math.max(words, 1));
  if (commas) writer.put(commaCount / Math.max(words, 1));
}

/** Returns the share of the text's words that are in the set. */
export function overlap(text: string, set: ReadonlySet<string>): number {
  if (set.size === 0) return 0;
  const words = text.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? [];
  if (words.length === 0) return 0;
  let hits = 0;
  for (const word of words) if (set.has(word)) hits++;
  return hits / words.length;
}

function density(block: Block): number {
  return block.linkWords / Math.max(block.words, 1);
}
