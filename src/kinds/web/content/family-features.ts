// Numbers from the families of names and texts: those of the elements around a block, of its own
// text, and of what it stands under: its heading, the heading over its group, every heading of
// higher rank, and the first words of the elements above, which are often titles without saying so.
import type { Block, Place, Segments } from './blocks.ts';
import { nameFamiliesOf, nameFamilyNames, textFamiliesOf, textFamilyNames } from './families.ts';

const nearLevels = 3;
const farLevels = 12;
/** Elements above whose first text may be their title; larger ones are the page itself. */
const titledLevels = 8;
const titledShareMax = 0.5;
const headingRanks = 6;

export const familyNames: readonly string[] = [
  ...['near', 'far'].flatMap((part) => nameFamilyNames.map((name) => `${part}-${name}`)),
  ...['own', 'heading', 'over', 'chain', 'lead'].flatMap((part) =>
    textFamilyNames.map((name) => `${part}-${name}`),
  ),
];

/** Families of the texts of a page, by block. */
export interface Families {
  own: readonly number[];
  /** Of all headings above a block: the nearest and those of higher rank. */
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
 * Families as bits, in the order of `familyNames`. `heading`: index of the block's heading, `over`: of that above its
 * group; -1 for none.
 */
export function familyBits(
  { own, chain, pageWords }: Families,
  { index, place }: Block,
  heading: number,
  over: number,
): { names: number[]; texts: number[] } {
  let near = 0;
  let far = 0;
  let lead = 0;
  let at: Place | undefined = place;
  for (let level = 0; at && level < farLevels && at.element.name !== 'body'; level++) {
    if (level < nearLevels) near |= nameFamiliesOf(at);
    else far |= nameFamiliesOf(at);
    if (level > 0 && level <= titledLevels && at.words <= titledShareMax * pageWords)
      lead |= own[at.firstBlock] ?? 0;
    at = at.parent;
  }
  return {
    names: [near, far],
    texts: [own[index]!, own[heading] ?? 0, own[over] ?? 0, chain[index]!, lead],
  };
}
