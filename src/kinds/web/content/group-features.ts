// Numbers about repetition: cards of a grid, rows of a list, posts of a thread, entries of a menu.
// What tells the list a reader came for from a menu or a row of recommendations is how its
// members look (pictures, prices, headings, words), how much of the page the whole group is, and
// under which heading it stands.
import type { Place, Segments } from './blocks.ts';
import { log } from './page-features.ts';

/** So many siblings of one shape make a group. */
const membersMin = 3;
/** A member with more of the page's words is a part of the page, not a card. */
const memberShareMax = 0.25;

const perGroup =
  'Members Words LinkDensity Share Images Prices Headings Inputs Level Start Rank PriceRank';

export const groupNames: readonly string[] = ['inner', 'outer'].flatMap((group) =>
  perGroup.split(' ').map((name) => `${group}${name}`),
);

export interface Groups {
  inner: (Place | undefined)[];
  outer: (Place | undefined)[];
  pageWords: number;
  blockCount: number;
  wordsMost: number;
  pricesMost: number;
}

export function findGroups({ blocks, words }: Segments): Groups {
  const wordsMax = memberShareMax * words;
  const known = new Map<Place, [Place | undefined, Place | undefined]>();
  const find = (place: Place | undefined): [Place | undefined, Place | undefined] => {
    if (!place) return [undefined, undefined];
    const found = known.get(place);
    if (found) return found;
    const [inner, outer] = find(place.parent);
    const isMember = place.words <= wordsMax && twins(place) >= membersMin;
    const pair: [Place | undefined, Place | undefined] = isMember
      ? [place, outer ?? place]
      : [inner, outer];
    known.set(place, pair);
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
  for (const { place } of blocks) {
    const [inner, outer] = find(place);
    groups.inner.push(inner);
    groups.outer.push(outer);
    if (!outer?.parent) continue;
    groups.wordsMost = Math.max(groups.wordsMost, outer.parent.words);
    groups.pricesMost = Math.max(groups.pricesMost, outer.parent.prices);
  }
  return groups;
}

export function groupNumbers(groups: Groups, index: number, place: Place): number[] {
  return [
    ...memberNumbers(groups.inner[index], groups, place),
    ...memberNumbers(groups.outer[index], groups, place),
  ];
}

const none = perGroup.split(' ').map(() => -1);

function memberNumbers(member: Place | undefined, groups: Groups, place: Place): number[] {
  if (!member?.parent) return none;
  const { parent } = member;
  const count = twins(member);
  return [
    log(count),
    log(member.words),
    member.linkWords / Math.max(member.words, 1),
    parent.words / groups.pageWords,
    parent.images / count,
    parent.prices / count,
    parent.headings / count,
    parent.inputs / count,
    place.depth - member.depth,
    parent.firstBlock / groups.blockCount,
    parent.words / groups.wordsMost,
    parent.prices / groups.pricesMost,
  ];
}

/** Siblings of the same tag and classes: rows, cards, posts. */
export function twins(place: Place): number {
  const { parent } = place;
  if (!parent) return 1;
  parent.shapes ??= childShapes(parent);
  return parent.shapes.get(place.shape) ?? 1;
}

function childShapes(place: Place): Map<string, number> {
  const shapes = new Map<string, number>();
  for (const child of place.element.children) {
    if (!('attribs' in child)) continue;
    const names = child.attribs.class;
    const shape = names === undefined ? child.name : `${child.name}.${names.replace(/\d+/g, '')}`;
    shapes.set(shape, (shapes.get(shape) ?? 0) + 1);
  }
  return shapes;
}
