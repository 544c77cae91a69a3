// Computes features about repetition: cards in a grid, rows of a list, posts of a thread, menu entries. The
// wanted list differs from a menu or a row of recommendations in its members (pictures, prices, headings,
// words), its share of the page, and its heading.
import type { Ancestor, Segments } from './blocks.ts';
import { log } from './page-features.ts';

/** This many siblings of the same shape form a group. */
const minMembers = 3;
/** A member with a larger share of the page's words is a page section, not a card. */
const maxMemberShare = 0.25;

const perGroup =
  'Members Words LinkDensity Share Images Prices Headings Inputs Level Start Rank PriceRank';

export const groupNames: readonly string[] = ['inner', 'outer'].flatMap((group) =>
  perGroup.split(' ').map((name) => `${group}${name}`),
);

export interface Groups {
  inner: (Ancestor | undefined)[];
  outer: (Ancestor | undefined)[];
  pageWords: number;
  blockCount: number;
  wordsMost: number;
  pricesMost: number;
}

export function findGroups({ blocks, words }: Segments): Groups {
  const maxWords = maxMemberShare * words;
  const known = new Map<Ancestor, [Ancestor | undefined, Ancestor | undefined]>();
  const find = (ancestor: Ancestor | undefined): [Ancestor | undefined, Ancestor | undefined] => {
    if (!ancestor) return [undefined, undefined];
    const found = known.get(ancestor);
    if (found) return found;
    const [inner, outer] = find(ancestor.parent);
    const isMember = ancestor.words <= maxWords && countSimilarSiblings(ancestor) >= minMembers;
    const pair: [Ancestor | undefined, Ancestor | undefined] = isMember
      ? [ancestor, outer ?? ancestor]
      : [inner, outer];
    known.set(ancestor, pair);
    return pair;
  };
  const groups: Groups = {
    inner: [],
    outer: [],
    pageWords: Math.max(words, 1),
    blockCount: blocks.length,
    wordsMost: 1,
    pricesMost: 1,
  };
  for (const { ancestor } of blocks) {
    const [inner, outer] = find(ancestor);
    groups.inner.push(inner);
    groups.outer.push(outer);
    if (!outer?.parent) continue;
    groups.wordsMost = Math.max(groups.wordsMost, outer.parent.words);
    groups.pricesMost = Math.max(groups.pricesMost, outer.parent.prices);
  }
  return groups;
}

export function groupNumbers(groups: Groups, index: number, ancestor: Ancestor): number[] {
  return [
    ...memberNumbers(groups.inner[index], groups, ancestor),
    ...memberNumbers(groups.outer[index], groups, ancestor),
  ];
}

const none = perGroup.split(' ').map(() => -1);

function memberNumbers(member: Ancestor | undefined, groups: Groups, ancestor: Ancestor): number[] {
  if (!member?.parent) return none;
  const { parent } = member;
  const count = countSimilarSiblings(member);
  return [
    log(count),
    log(member.words),
    member.linkWords / Math.max(member.words, 1),
    parent.words / groups.pageWords,
    parent.images / count,
    parent.prices / count,
    parent.headings / count,
    parent.inputs / count,
    ancestor.depth - member.depth,
    parent.firstBlock / groups.blockCount,
    parent.words / groups.wordsMost,
    parent.prices / groups.pricesMost,
  ];
}

/** Counts siblings with the same tag and classes: rows, cards, posts. */
export function countSimilarSiblings(ancestor: Ancestor): number {
  const { parent } = ancestor;
  if (!parent) return 1;
  parent.shapes ??= childShapes(parent);
  return parent.shapes.get(ancestor.shape) ?? 1;
}

function childShapes(ancestor: Ancestor): Map<string, number> {
  const shapes = new Map<string, number>();
  for (const child of ancestor.element.children) {
    if (!('attribs' in child)) continue;
    const names = child.attribs.class;
    const shape = names === undefined ? child.name : `${child.name}.${names.replace(/\d+/g, '')}`;
    shapes.set(shape, (shapes.get(shape) ?? 0) + 1);
  }
  return shapes;
}
