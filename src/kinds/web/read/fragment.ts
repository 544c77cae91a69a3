// Reads the visible content of an HTML fragment inside another document, such as a feed entry.
import { segment } from '../main-content/blocks.ts';
import { parseHtml } from './parse-html.ts';
import { Visibility } from './hidden.ts';
import { renderMarkdown } from '../markdown/markdown.ts';
import { Selection } from './selection.ts';

interface Fragment {
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
