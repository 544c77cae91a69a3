// Computes features from the lexicon: the scores of the names around a block and of its first words, and the
// same for its neighbours, headings and ancestors. Recommendations show in their heading, a menu in its other
// entries.
import { ancestorAt, type Block } from './blocks.ts';
import { textScore, type Lexicon } from './lexicon.ts';

const levels = [2, 3, 5];

export const scoreNames: readonly string[] = [
  'nameScore',
  'textScore',
  'prevTextScore',
  'nextTextScore',
  'headingScore',
  'groupHeadingScore',
  ...levels.map((level) => `up${level}TextScore`),
];

interface TextScores {
  own: Float32Array;
  /** Sum of the scores before each block. */
  before: Float64Array;
}

export function textScores(blocks: readonly Block[], lexicon: Lexicon): TextScores {
  const own = Float32Array.from(blocks, (block) => textScore(block, lexicon));
  const before = new Float64Array(blocks.length + 1);
  own.forEach((score, i) => {
    before[i + 1] = before[i]! + score;
  });
  return { own, before };
}

/** `heading` is the index of the block's heading, `over` that of the heading above its group; -1 for none. */
export function scoreNumbers(
  { index, ancestor }: Block,
  nameScore: number,
  { own, before }: TextScores,
  { heading, over }: { heading: number; over: number },
): number[] {
  return [
    nameScore,
    own[index]!,
    own[index - 1] ?? 0,
    own[index + 1] ?? 0,
    own[heading] ?? 0,
    own[over] ?? 0,
    ...levels.map((level) => {
      const { firstBlock, lastBlock } = ancestorAt(ancestor, level);
      return (before[lastBlock + 1]! - before[firstBlock]!) / (lastBlock - firstBlock + 1);
    }),
  ];
}
