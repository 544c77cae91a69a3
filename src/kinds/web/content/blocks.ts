// Cuts a page into text blocks: runs of inline text under one block element, in document order,
// each with the chain of elements above it. Counts that belong to an element (words, links,
// commas) are summed on the way up.
import { isElement, isText, walk, withoutInvisible } from './dom.ts';
import type { AnyNode, Element, Text } from './dom.ts';
import { isApart } from './gaps.ts';
import type { Visibility } from './hidden.ts';
import { insideOf } from './inside.ts';

/** An element on the way to some text, with sums over the text below it. */
export interface Place {
  element: Element;
  parent: Place | undefined;
  depth: number;
  /** Bits of `Inside` for this element and everything above it. */
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
  /** Tag and class names: equal for repeated siblings. */
  shape: string;
  /** Element children by shape, made when first asked. */
  shapes?: Map<string, number>;
  /** Caches of the scorer. */
  near?: number;
  far?: number;
  hint?: number;
}

export interface Block {
  index: number;
  place: Place;
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
  /** 1 to 6 in a heading, else 0. */
  heading: number;
  price: boolean;
  /** Words of all blocks before this one. */
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
  words: number;
  linkWords: number;
}

const pricePattern = /[$€£¥₹]\s?\d|\d\s?(?:€|EUR|USD|GBP|kr)\b/;
const controls = new Set(['input', 'select', 'textarea']);

/** At most so many blocks are read; the rest of a page that long is a dump, not text. */
const blocksMax = 40_000;

export function segment(root: AnyNode, hidden: Visibility): Segments {
  return new Segmenter(hidden).run(root);
}

class Segmenter {
  private readonly hidden: Visibility;
  private readonly blocks: Block[] = [];
  private place: Place | undefined;
  private nodes: Text[] = [];
  private linkWords = 0;
  private links = 0;
  private linkDepth = 0;
  private home: Place | undefined;
  private words = 0;
  private allLinkWords = 0;

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
    return { blocks: this.blocks, words: this.words, linkWords: this.allLinkWords };
  }

  private enter(node: AnyNode): boolean {
    if (isText(node)) {
      this.take(node);
      return false;
    }
    if (!isElement(node)) return node.parent === null;
    if (this.place && controls.has(node.name) && node.attribs.type !== 'hidden')
      this.place.inputs++;
    if (this.hidden.hides(node)) return false;
    if (this.place && node.name === 'img') this.place.images++;
    if (this.blocks.length >= blocksMax) return false;
    if (blockTags.has(node.name)) this.flush();
    this.place = newPlace(node, this.place, this.blocks.length);
    if (node.name === 'a' && node.attribs.href !== undefined) {
      this.linkDepth++;
      this.links++;
    }
    return true;
  }

  private leave(element: Element): void {
    const place = this.place;
    if (place?.element !== element) return;
    if (element.name === 'a' && element.attribs.href !== undefined) this.linkDepth--;
    if (blockTags.has(element.name)) this.flush();
    place.lastBlock = this.blocks.length - 1;
    const up = place.parent;
    if (up) {
      up.words += place.words;
      up.linkWords += place.linkWords;
      up.commas += place.commas;
      up.paragraphs += place.paragraphs;
      up.headings += place.headings;
      up.prices += place.prices;
      up.images += place.images;
      up.inputs += place.inputs;
    }
    this.place = up;
  }

  private take(node: Text): void {
    if (!this.place) return;
    if (this.nodes.length === 0 && !/\S/.test(node.data)) return;
    if (this.nodes.length === 0) this.home = nearestBlock(this.place);
    this.nodes.push(node);
    if (this.linkDepth > 0) this.linkWords += countWords(node.data);
  }

  private flush(): void {
    const { nodes, home } = this;
    if (nodes.length > 0 && home) {
      const text = withoutInvisible(joined(nodes)).replace(/\s+/g, ' ').trim();
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
    const { place } = block;
    place.words += block.words;
    place.linkWords += block.linkWords;
    place.commas += block.commas;
    if (block.heading > 0) place.headings++;
    if (block.price && block.words <= 12) place.prices++;
    if (block.words >= 12 && block.linkWords * 3 < block.words) place.paragraphs++;
  }
}

function joined(nodes: Text[]): string {
  if (nodes.length === 1) return nodes[0]!.data;
  let text = '';
  let before: Text | undefined;
  for (const node of nodes) {
    // A line break between two texts separates words; other inline tags only side by side.
    if (before && (isBreak(node.prev) || isApart(before, node))) text += ' ';
    text += node.data;
    before = node;
  }
  return text;
}

function isBreak(node: AnyNode | null): boolean {
  return isElement(node) && node.name === 'br';
}

function newPlace(element: Element, parent: Place | undefined, block: number): Place {
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

function nearestBlock(place: Place): Place {
  let at = place;
  while (at.parent && !blockTags.has(at.element.name)) at = at.parent;
  return at;
}

function newBlock(index: number, place: Place, text: string, nodes: Text[]): Block {
  const block: Block = {
    index,
    place,
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
    heading: headingLevel(place),
    price: false,
    wordsBefore: 0,
  };
  countChars(block, text);
  block.price = pricePattern.test(block.words <= 40 ? text : text.slice(0, 300));
  return block;
}

function headingLevel(place: Place): number {
  let at: Place | undefined = place;
  for (let level = 0; at && level < 3; level++) {
    const { name } = at.element;
    if (name.length === 2 && name >= 'h1' && name <= 'h6') return Number(name[1]);
    at = at.parent;
  }
  return 0;
}

/** One pass over the characters: letters, digits, capitals, commas, sentence ends, words. */
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
  // Two ideographs make about one word.
  block.words += Math.ceil(wide / 2);
}

/** The element so many levels above, or the topmost. */
export function above(place: Place, levels: number): Place {
  let at = place;
  for (let level = 0; level < levels && at.parent; level++) at = at.parent;
  return at;
}

/** Equal for blocks that play the same part: titles of cards, prices, answers. */
export function pathName({ shape, parent }: Place): string {
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
