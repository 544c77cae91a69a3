// Splits a page into text blocks: runs of inline text under one block element, in document order, each with
// its chain of ancestor elements. Per-element counts (words, links, commas) are summed up the tree.
import { isElement, isText, walk, withoutInvisible } from '../read/dom.ts';
import type { AnyNode, Element, Text } from '../read/dom.ts';
import { startsNewWord } from '../read/word-gaps.ts';
import { isNonText, type Visibility } from '../read/hidden.ts';
import { insideOf } from './inside.ts';

/** An ancestor element of some text, with sums over the text below it. */
export interface Ancestor {
  element: Element;
  parent: Ancestor | undefined;
  depth: number;
  /** `Inside` bits for this element and all its ancestors. */
  inside: number;
  words: number;
  linkWords: number;
  commas: number;
  paragraphs: number;
  headings: number;
  prices: number;
  images: number;
  /** Form controls: filters, sorting, options. */
  inputs: number;
  firstBlock: number;
  lastBlock: number;
  /** Tag and class names. Repeated siblings share the same shape. */
  shape: string;
  /** Child elements counted by shape. Computed on first use. */
  shapes?: Map<string, number>;
  /** Scorer caches. */
  near?: number;
  far?: number;
  hint?: number;
}

export interface Block {
  index: number;
  ancestor: Ancestor;
  text: string;
  nodes: Text[];
  words: number;
  linkWords: number;
  links: number;
  letters: number;
  digits: number;
  uppers: number;
  commas: number;
  stops: number;
  /** Heading level 1 to 6, or 0 outside headings. */
  heading: number;
  price: boolean;
  /** Total words in all preceding blocks. */
  wordsBefore: number;
}

const blockTags = new Set(
  (
    'address article aside blockquote body button caption center dd details dialog dir div dl dt ' +
    'fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li ' +
    'main menu nav ol p pre search ' +
    'section summary table tbody td tfoot th thead tr ul'
  ).split(' '),
);

export function isBlockTag(name: string): boolean {
  return blockTags.has(name);
}

export interface Segments {
  blocks: Block[];
  /** Words in all blocks, including those beyond `maxBlocks`. */
  words: number;
  linkWords: number;
  /** Words that a reader of the page does not see. */
  hiddenWords: number;
}

const pricePattern = /[$€£¥₹]\s?\d|\d\s?(?:€|EUR|USD|GBP|kr)\b/;
const controls = new Set(['input', 'select', 'textarea']);

/** Maximum number of blocks per page. The rest of a longer page is a data dump, not prose. */
const maxBlocks = 40_000;

export function segment(root: AnyNode, hidden: Visibility): Segments {
  return new Segmenter(hidden).run(root);
}

class Segmenter {
  private readonly hidden: Visibility;
  private readonly blocks: Block[] = [];
  private ancestor: Ancestor | undefined;
  private nodes: Text[] = [];
  private linkWords = 0;
  private links = 0;
  private linkDepth = 0;
  private home: Ancestor | undefined;
  private words = 0;
  private allLinkWords = 0;
  private hiddenWords = 0;

  constructor(hidden: Visibility) {
    this.hidden = hidden;
  }

  run(root: AnyNode): Segments {
    walk(
      root,
      (node) => this.enter(node),
      (node) => this.leave(node),
    );
    this.flush();
    const { blocks, words, allLinkWords: linkWords, hiddenWords } = this;
    return { blocks, words, linkWords, hiddenWords };
  }

  private enter(node: AnyNode): boolean {
    if (isText(node)) {
      this.take(node);
      return false;
    }
    if (!isElement(node)) return node.parent === null;
    if (this.ancestor && controls.has(node.name) && node.attribs.type !== 'hidden')
      this.ancestor.inputs++;
    if (this.hidden.hides(node)) {
      if (!isNonText(node)) this.hiddenWords += wordsBelow(node);
      return false;
    }
    if (this.ancestor && node.name === 'img') this.ancestor.images++;
    if (this.blocks.length >= maxBlocks) {
      this.words += wordsBelow(node);
      return false;
    }
    if (blockTags.has(node.name)) this.flush();
    this.ancestor = newAncestor(node, this.ancestor, this.blocks.length);
    if (node.name === 'a' && node.attribs.href !== undefined) {
      this.linkDepth++;
      this.links++;
    }
    return true;
  }

  private leave(element: Element): void {
    const ancestor = this.ancestor;
    if (ancestor?.element !== element) return;
    if (element.name === 'a' && element.attribs.href !== undefined) this.linkDepth--;
    if (blockTags.has(element.name)) this.flush();
    ancestor.lastBlock = this.blocks.length - 1;
    const up = ancestor.parent;
    if (up) {
      up.words += ancestor.words;
      up.linkWords += ancestor.linkWords;
      up.commas += ancestor.commas;
      up.paragraphs += ancestor.paragraphs;
      up.headings += ancestor.headings;
      up.prices += ancestor.prices;
      up.images += ancestor.images;
      up.inputs += ancestor.inputs;
    }
    this.ancestor = up;
  }

  private take(node: Text): void {
    if (!this.ancestor) return;
    if (this.nodes.length === 0 && !/\S/.test(node.data)) return;
    if (this.nodes.length === 0) this.home = nearestBlock(this.ancestor);
    this.nodes.push(node);
    if (this.linkDepth > 0) this.linkWords += countWords(node.data);
  }

  private flush(): void {
    const { nodes, home } = this;
    if (nodes.length > 0 && home) {
      const text = withoutInvisible(joinTexts(nodes)).replace(/\s+/g, ' ').trim();
      const block = newBlock(this.blocks.length, home, text, nodes);
      if (block.letters + block.digits > 0) this.add(block);
    }
    this.nodes = [];
    this.linkWords = 0;
    this.links = this.linkDepth > 0 ? 1 : 0;
  }

  private add(block: Block): void {
    block.linkWords = Math.min(this.linkWords, block.words);
    block.links = this.links;
    block.wordsBefore = this.words;
    this.blocks.push(block);
    this.words += block.words;
    this.allLinkWords += block.linkWords;
    const { ancestor } = block;
    ancestor.words += block.words;
    ancestor.linkWords += block.linkWords;
    ancestor.commas += block.commas;
    if (block.heading > 0) ancestor.headings++;
    if (block.price && block.words <= 12) ancestor.prices++;
    if (block.words >= 12 && block.linkWords * 3 < block.words) ancestor.paragraphs++;
  }
}

/** Counts the words of all text below, except scripts and similar elements. */
function wordsBelow(element: Element): number {
  let words = 0;
  walk(element, (node) => {
    if (isText(node)) words += countWords(node.data);
    else if (isElement(node) && isNonText(node)) return false;
  });
  return words;
}

function joinTexts(nodes: Text[]): string {
  if (nodes.length === 1) return nodes[0]!.data;
  let text = '';
  let before: Text | undefined;
  for (const node of nodes) {
    // A line break between two texts separates words. Other inline tags separate them only when `isApart`
    // says so.
    if (before && (isBreak(node.prev) || startsNewWord(before, node))) text += ' ';
    text += node.data;
    before = node;
  }
  return text;
}

function isBreak(node: AnyNode | null): boolean {
  return isElement(node) && node.name === 'br';
}

function newAncestor(element: Element, parent: Ancestor | undefined, block: number): Ancestor {
  const { attribs, name } = element;
  return {
    element,
    parent,
    depth: (parent?.depth ?? 0) + 1,
    inside: (parent?.inside ?? 0) | insideOf(element),
    words: 0,
    linkWords: 0,
    commas: 0,
    paragraphs: 0,
    headings: 0,
    prices: 0,
    images: 0,
    inputs: 0,
    firstBlock: block,
    lastBlock: block - 1,
    shape: attribs.class === undefined ? name : `${name}.${attribs.class.replace(/\d+/g, '')}`,
  };
}

function nearestBlock(ancestor: Ancestor): Ancestor {
  let at = ancestor;
  while (at.parent && !blockTags.has(at.element.name)) at = at.parent;
  return at;
}

function newBlock(index: number, ancestor: Ancestor, text: string, nodes: Text[]): Block {
  const block: Block = {
    index,
    ancestor,
    text,
    nodes,
    words: 0,
    linkWords: 0,
    links: 0,
    letters: 0,
    digits: 0,
    uppers: 0,
    commas: 0,
    stops: 0,
    heading: headingLevel(ancestor),
    price: false,
    wordsBefore: 0,
  };
  countChars(block, text);
  block.price = pricePattern.test(block.words <= 40 ? text : text.slice(0, 300));
  return block;
}

function headingLevel(ancestor: Ancestor): number {
  let at: Ancestor | undefined = ancestor;
  for (let level = 0; at && level < 3; level++) {
    const { name } = at.element;
    if (name.length === 2 && name >= 'h1' && name <= 'h6') return Number(name[1]);
    at = at.parent;
  }
  return 0;
}

/** Counts letters, digits, capitals, commas, sentence ends and words in one pass over the characters. */
function countChars(block: Block, text: string): void {
  let inWord = false;
  let wide = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const wordChar = isWordCode(code);
    if (wordChar) {
      if (code >= 48 && code <= 57) block.digits++;
      else block.letters++;
      if (code >= 65 && code <= 90) block.uppers++;
      if (isWide(code)) wide++;
      else if (!inWord) block.words++;
      inWord = !isWide(code);
      continue;
    }
    inWord = false;
    if (code === 44 || code === 0x3001 || code === 0xff0c) block.commas++;
    else if (isStop(code, text, i)) block.stops++;
  }
  // Two ideographs count as about one word.
  block.words += Math.ceil(wide / 2);
}

/** Returns the ancestor `levels` above, or the topmost one. */
export function ancestorAt(ancestor: Ancestor, levels: number): Ancestor {
  let at = ancestor;
  for (let level = 0; level < levels && at.parent; level++) at = at.parent;
  return at;
}

/** Equal for blocks with the same role, such as card titles, prices or answers. */
export function pathName({ shape, parent }: Ancestor): string {
  return `${parent?.parent?.shape ?? ''}>${parent?.shape ?? ''}>${shape}`;
}

export function countWords(text: string): number {
  let words = 0;
  let wide = 0;
  let inWord = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (!isWordCode(code)) inWord = false;
    else if (isWide(code)) wide++;
    else if (!inWord) {
      words++;
      inWord = true;
    }
  }
  return words + Math.ceil(wide / 2);
}

function isWordCode(code: number): boolean {
  if (code < 128)
    return (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || (code >= 65 && code <= 90);
  if (code < 0xc0) return code === 0xaa || code === 0xb5 || code === 0xba;
  if (code >= 0x2000 && code < 0x2c00) return false;
  return !(code >= 0x3000 && code < 0x3040) && !(code >= 0xff00 && code < 0xff10);
}

function isWide(code: number): boolean {
  return code >= 0x3040 && code < 0xd7b0 && !(code >= 0xa000 && code < 0xac00);
}

function isStop(code: number, text: string, at: number): boolean {
  if (code === 0x3002 || code === 33 || code === 63 || code === 0xff01 || code === 0xff1f)
    return true;
  return code === 46 && (at + 1 === text.length || text.charCodeAt(at + 1) === 32);
}
