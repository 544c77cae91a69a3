// Numbers from the learned words: what the names around a block and its own first words say, and
// the same of its neighbours, its headings and the elements above it. A row of recommendations
// shows itself by its heading, a menu by its other entries.
import { above, type Block } from './blocks.ts';
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

/** `heading`: index of the block's heading, `over`: of that above its group; -1 for none. */
export function scoreNumbers(
  { index, place }: Block,
  nameScore: number,
  { own, before }: TextScores,
  heading: number,
  over: number,
): number[] {
  return [
    nameScore,
    own[index]!,
    own[index - 1] ?? 0,
    own[index + 1] ?? 0,
    own[heading] ?? 0,
    own[over] ?? 0,
    ...levels.map((level) => {
      const { firstBlock, lastBlock } = above(place, level);
      return (before[lastBlock + 1]! - before[firstBlock]!) / (lastBlock - firstBlock + 1);
    }),
  ];
}
