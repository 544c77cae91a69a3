// Computes page features, which are the same for every block, and scales all features.
import type { Segments } from './blocks.ts';
import { Inside } from './inside.ts';
import type { PageSignals } from './signals.ts';

export function pageNumbers(
  { blocks, words, linkWords }: Segments,
  signals: PageSignals,
): number[] {
  let running = 0;
  let prices = 0;
  let replies = 0;
  let code = 0;
  let top = blocks[0]?.ancestor;
  while (top?.parent) top = top.parent;
  const { images = 0, inputs = 0 } = top ?? {};
  for (const block of blocks) {
    if (block.words >= 15 && block.linkWords * 3 < block.words) running += block.words;
    if (block.words <= 12 && block.price) prices++;
    if (
      block.words <= 4 &&
      /\b(?:reply|quote|replies|posted|joined|posts|views)\b/i.test(block.text)
    )
      replies++;
    if ((block.ancestor.inside & Inside.pre) !== 0) code++;
  }
  return [
    log(words),
    linkWords / Math.max(words, 1),
    running / Math.max(words, 1),
    log(blocks.length),
    log(signals.articles),
    signals.hasMain ? 1 : 0,
    signals.isArticle ? 1 : 0,
    signals.isProduct ? 1 : 0,
    signals.isForum ? 1 : 0,
    signals.isList ? 1 : 0,
    log(prices),
    log(replies),
    log(code),
    log(images),
    log(inputs),
  ];
}

export function log(value: number): number {
  return Math.log2(1 + Math.max(value, 0));
}

export function signedLog(value: number): number {
  return value < 0 ? -log(-value) : log(value);
}
