// Computes family features of a block: the families of its ancestors, of its own text, and of its headings
// (its own, its group's and all of higher rank). The first words of its ancestors count as well, because they
// are often titles without heading markup.
import type { Block, Ancestor, Segments } from './blocks.ts';
import { nameFamiliesOf, nameFamilyNames, textFamiliesOf, textFamilyNames } from './families.ts';

const nearLevels = 3;
const farLevels = 12;
/** Ancestors whose first text may be their title. Larger ones are the page itself. */
const titledLevels = 8;
const maxTitledShare = 0.5;
const headingRanks = 6;

export const familyNames: readonly string[] = [
  ...['near', 'far'].flatMap((part) => nameFamilyNames.map((name) => `${part}-${name}`)),
  ...['own', 'heading', 'over', 'chain', 'lead'].flatMap((part) =>
    textFamilyNames.map((name) => `${part}-${name}`),
  ),
];

/** Text families of a page, by block. */
export interface Families {
  own: readonly number[];
  /** Families of all headings above a block: the nearest one and those of higher rank. */
  chain: readonly number[];
  pageWords: number;
}

export function findFamilies({ blocks, words }: Segments): Families {
  const own = blocks.map(textFamiliesOf);
  const open = Array.from({ length: headingRanks + 1 }, () => 0);
  const chain = blocks.map(({ heading, index }) => {
    if (heading > 0) {
      open.fill(0, heading);
      open[heading] = own[index]!;
    }
    return open.reduce((all, bits) => all | bits, 0);
  });
  return { own, chain, pageWords: words };
}

/**
 * Returns families as bits, in the order of `familyNames`. `heading` is the index of the block's heading,
 * `over` that of the heading above its group; -1 for none.
 */
export function familyBits(
  { own, chain, pageWords }: Families,
  { index, ancestor }: Block,
  heading: number,
  over: number,
): { names: number[]; texts: number[] } {
  let near = 0;
  let far = 0;
  let lead = 0;
  let at: Ancestor | undefined = ancestor;
  for (let level = 0; at && level < farLevels && at.element.name !== 'body'; level++) {
    if (level < nearLevels) near |= nameFamiliesOf(at);
    else far |= nameFamiliesOf(at);
    if (level > 0 && level <= titledLevels && at.words <= maxTitledShare * pageWords)
      lead |= own[at.firstBlock] ?? 0;
    at = at.parent;
  }
  return {
    names: [near, far],
    texts: [own[index]!, own[heading] ?? 0, own[over] ?? 0, chain[index]!, lead],
  };
}
