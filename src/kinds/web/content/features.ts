// Numbers about a block that tell main content from the rest, in a fixed order (`featureNames`):
// its own text, its place in the tree, the elements above it, its neighbours, and the page. All
// are scale-free or logarithmic, and none names a site, so that what is learned from some pages
// holds on others.
import { pathName, type Block, type Place, type Segments } from './blocks.ts';
import { nameFamilyNames, textFamilyNames } from './families.ts';
import { familyBits, familyNames, findFamilies, type Families } from './family-features.ts';
import { Inside } from './inside.ts';
import { findGroups, groupNames, groupNumbers, twins, type Groups } from './group-features.ts';
import { nameScore, type Lexicon } from './lexicon.ts';
import { scoreNames, scoreNumbers, textScores } from './score-features.ts';
import { log, pageNumbers, signedLog } from './page-features.ts';
import type { PageSigns } from './signs.ts';

const levels = [1, 2, 3, 5];

const container = levels.flatMap((level) =>
  [
    ...list('Words LinkDensity Commas Share Paragraphs Twins Blocks Images Headings Prices Inputs'),
  ].map((name) => `up${level}${name}`),
);

/** In the order in which the writers below put them. */
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

/** The rows of a page, with what the lexicon's columns still need. */
export interface Described {
  rows: Float32Array;
  context: Context;
}

/** One row per block, flat; the lexicon's columns are still empty. */
export function describe(segments: Segments, signs: PageSigns): Described {
  const rows = new Float32Array(segments.blocks.length * featureNames.length);
  const context = newContext(segments, signs);
  segments.blocks.forEach((block, i) => {
    const writer = new Writer(rows, i * featureNames.length);
    writeOwn(writer, block, context);
    writeSeat(writer, block, context);
    for (const bit of insideBits) writer.put((block.place.inside & bit) === 0 ? 0 : 1);
    writeContainers(writer, block, context);
    writeKin(writer, block, context);
    writeTitle(writer, block, context);
    writer.putAll(groupNumbers(context.groups, block.index, block.place));
    writeAround(writer, block, context);
    writer.putAll(context.page);
    const { heading, over } = headingsOf(block, context);
    const { names, texts } = familyBits(context.families, block, heading, over);
    for (const bits of names) writer.putBits(bits, nameFamilyNames.length);
    for (const bits of texts) writer.putBits(bits, textFamilyNames.length);
  });
  return { rows, context };
}

/** Fills the lexicon's columns, the last ones of each row. */
export function withLexicon({ rows, context }: Described, lexicon: Lexicon): Float32Array {
  const { blocks } = context.segments;
  const at = featureNames.length - scoreNames.length;
  const texts = textScores(blocks, lexicon);
  for (const block of blocks) {
    const { heading, over } = headingsOf(block, context);
    rows.set(
      scoreNumbers(block, nameScore(block.place, lexicon), texts, heading, over),
      block.index * featureNames.length + at,
    );
  }
  return rows;
}

/** Indexes of a block's heading and of that above its group; -1 for none. */
function headingsOf({ index }: Block, { headingAt, groups }: Context) {
  const first = groups.outer[index]?.parent?.firstBlock ?? index;
  return { heading: headingAt[index]!, over: first === 0 ? -1 : headingAt[first - 1]! };
}

class Writer {
  private readonly rows: Float32Array;
  private at: number;
  constructor(rows: Float32Array, at: number) {
    this.rows = rows;
    this.at = at;
  }
  put(value: number): void {
    this.rows[this.at++] = value;
  }
  putAll(values: readonly number[]): void {
    for (const value of values) this.put(value);
  }
  /** A number for each bit; they are 0 already. */
  putBits(bits: number, count: number): void {
    for (let left = bits; left !== 0; left &= left - 1)
      this.rows[this.at + 31 - Math.clz32(left & -left)] = 1;
    this.at += count;
  }
}

interface Context {
  segments: Segments;
  signs: PageSigns;
  repeats: Map<string, number>;
  paths: Map<string, PathSum>;
  pathOf: string[];
  titleAt: number;
  headingAt: Int32Array;
  top: Place | undefined;
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

function newContext(segments: Segments, signs: PageSigns): Context {
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
    const path = pathName(block.place);
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
  const context = { segments, signs, repeats, paths, pathOf, headingAt, page: [] as number[] };
  return {
    ...context,
    titleAt: titleIndex(blocks, signs),
    top: topPlace(blocks),
    groups: findGroups(segments),
    families: findFamilies(segments),
    page: pageNumbers(segments, signs),
  };
}

/**
 * The block that looks like the page's title: the first h1 that shares words with it, else the
 * first h1.
 */
function titleIndex(blocks: readonly Block[], signs: PageSigns): number {
  let first = -1;
  for (const block of blocks) {
    if (block.heading !== 1) continue;
    if (first < 0) first = block.index;
    if (overlap(block.text, signs.titleWords) > 0.5) return block.index;
  }
  return first;
}

/**
 * The smallest element that holds most of the running text (Readability's idea, without its class
 * lists).
 */
function topPlace(blocks: readonly Block[]): Place | undefined {
  const scores = new Map<Place, number>();
  for (const block of blocks) {
    if (block.words < 10 || block.linkWords * 2 > block.words) continue;
    const value = Math.min(block.words, 60) + 5 * block.commas;
    let weight = 1;
    let at: Place | undefined = block.place;
    for (let level = 0; at && level < 5; level++) {
      if (level > 0) scores.set(at, (scores.get(at) ?? 0) + value * weight);
      if (level > 0) weight *= 0.6;
      at = at.parent;
    }
  }
  let best: Place | undefined;
  let most = 0;
  for (const [place, score] of scores) {
    const value = score * (1 - place.linkWords / Math.max(place.words, 1));
    if (value > most) [best, most] = [place, value];
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

function writeOwn(writer: Writer, block: Block, context: Context): void {
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
  writer.put(tagNumbers.get(block.place.element.name) ?? 0);
  writer.put(block.price ? 1 : 0);
  writer.put(datePattern.test(short) ? 1 : 0);
  writer.put(copyrightPattern.test(short) ? 1 : 0);
  writer.put(/[|»›•·]/.test(short) ? 1 : 0);
  writer.put(text.includes(':') ? 1 : 0);
  writer.put(words <= 60 ? overlap(text, context.signs.titleWords) : 0);
  writer.put(words <= 120 ? overlap(text, context.signs.descriptionWords) : 0);
  writer.put(log(context.repeats.get(text) ?? 1));
}

function writeSeat(writer: Writer, block: Block, context: Context): void {
  const { segments, titleAt, headingAt } = context;
  const { blocks } = segments;
  const heading = headingAt[block.index]!;
  writer.put(block.index / blocks.length);
  writer.put(block.wordsBefore / Math.max(segments.words, 1));
  writer.put(log(blocks.length - block.index));
  writer.put(Math.min(block.place.depth, 40));
  writer.put(titleAt < 0 ? 0 : block.index > titleAt ? 2 : block.index === titleAt ? 1 : -1);
  writer.put(titleAt < 0 ? -10 : signedLog(block.index - titleAt));
  writer.put(heading < 0 ? 10 : log(block.index - heading));
  writer.put(heading < 0 ? 0 : log(block.wordsBefore - blocks[heading]!.wordsBefore));
}

function writeContainers(writer: Writer, block: Block, context: Context): void {
  let at: Place = block.place;
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
    writer.put(log(twins(at)));
    const count = at.lastBlock - at.firstBlock + 1;
    writer.put(log(count));
    writer.put(at.images / count);
    writer.put(at.headings / count);
    writer.put(at.prices / count);
    writer.put(at.inputs / count);
  }
}

function writeTitle(writer: Writer, block: Block, { segments, signs, titleAt }: Context): void {
  const title = segments.blocks[titleAt];
  const shared = title ? sharedPlace(block.place, title.place) : undefined;
  writer.put(title && shared ? shared.depth / title.place.depth : -1);
  writer.put(shared ? shared.words / Math.max(segments.words, 1) : -1);
  writer.put(block.words <= 120 ? overlap(block.text, signs.dataWords) : 0);
}

function writeKin(writer: Writer, block: Block, context: Context): void {
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
  writer.put((sharedPlace(block.place, top)?.depth ?? 0) / top.depth);
}

function sharedPlace(place: Place, other: Place): Place | undefined {
  let a: Place | undefined = place;
  let b: Place | undefined = other;
  while (a && b && a !== b) {
    if (a.depth > b.depth) a = a.parent;
    else if (b.depth > a.depth) b = b.parent;
    else [a, b] = [a.parent, b.parent];
  }
  return a === b ? a : undefined;
}

function writeAround(writer: Writer, block: Block, context: Context): void {
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
  writeWindow(writer, blocks, at, 4, true);
  writeWindow(writer, blocks, at, 12, false);
}

function writeWindow(
  writer: Writer,
  blocks: readonly Block[],
  at: number,
  reach: number,
  commas: boolean,
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

/** Share of the text's words that are in the set. */
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
