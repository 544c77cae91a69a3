// Numbers about the page as a whole, the same for each of its blocks, and the scales all numbers are put on.
import type { Segments } from './blocks.ts';
import { Inside } from './inside.ts';
import type { PageSigns } from './signs.ts';

export function pageNumbers({ blocks, words, linkWords }: Segments, signs: PageSigns): number[] {
  let running = 0;
  let prices = 0;
  let replies = 0;
  let code = 0;
  let top = blocks[0]?.place;
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
    if ((block.place.inside & Inside.pre) !== 0) code++;
  }
  return [
    log(words),
    linkWords / Math.max(words, 1),
    running / Math.max(words, 1),
    log(blocks.length),
    log(signs.articles),
    signs.hasMain ? 1 : 0,
    signs.isArticle ? 1 : 0,
    signs.isProduct ? 1 : 0,
    signs.isForum ? 1 : 0,
    signs.isList ? 1 : 0,
    log(prices),
    log(replies),
    log(code),
    log(images),
    log(inputs),
    ...urlNumbers(signs.url),
  ];
}

const urlPatterns = [
  /\/(?:products?|item|itm|dp|p|pd|app)\/|[-/]p-?\d+/i,
  /\/(?:collections?|categor(?:y|ies)|c|cat|shop|browse|list|tags?|topics?|genre|search)(?:\/|$|\?)/i,
  /\/(?:t|threads?|topic|questions?|forums?|discussions?|viewtopic|showthread|comments)(?:\/|\.|$)|forum|community/i,
  /\/(?:blog|news|articles?|posts?|story|stories|\d{4})\//i,
];

/** What the address says about the kind of page. */
function urlNumbers(url: string): number[] {
  const path = URL.canParse(url) ? new URL(url).pathname : '';
  const flags = urlPatterns.map((pattern) => (pattern.test(url) ? 1 : 0));
  return [...flags, path.split('/').filter(Boolean).length];
}

export function log(value: number): number {
  return Math.log2(1 + Math.max(value, 0));
}

export function signedLog(value: number): number {
  return value < 0 ? -log(-value) : log(value);
}
