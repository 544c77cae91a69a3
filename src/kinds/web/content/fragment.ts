// A piece of HTML inside something else (an entry of a feed): what a reader would see of it.
import { segment } from './blocks.ts';
import { parseHtml } from './dom.ts';
import { Visibility } from './hidden.ts';
import { renderMarkdown } from './markdown.ts';
import { Selection } from './selection.ts';

export interface Fragment {
  /** On one line. */
  text: string;
  markdown: string;
}

export function readFragment(
  html: string,
  resolve: (href: string) => string | undefined,
): Fragment {
  const root = parseHtml(`<div>${html}</div>`);
  const hidden = new Visibility(root);
  const { blocks } = segment(root, hidden);
  return {
    text: blocks.map(({ text }) => text).join(' '),
    markdown: renderMarkdown(root, new Selection(blocks, blocks), {
      includeLinks: true,
      includeImages: false,
      resolve,
      hides: (element) => hidden.hides(element),
    }),
  };
}
