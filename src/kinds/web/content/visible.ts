// The text of one element as a reader sees it, on one line.
import { isBlockTag } from './blocks.ts';
import { isElement, isText, tidy, walk, type AnyNode } from './dom.ts';

const unseen = new Set(['script', 'style', 'noscript', 'template', 'svg']);

export function visibleText(root: AnyNode): string {
  const parts: string[] = [];
  walk(root, (node) => {
    if (isText(node)) parts.push(node.data);
    else if (isElement(node)) {
      if (unseen.has(node.name) || 'hidden' in node.attribs) return false;
      if (/display\s*:\s*none/i.test(node.attribs.style ?? '')) return false;
      if (isBlockTag(node.name) || node.name === 'br') parts.push(' ');
    }
  });
  return tidy(parts.join(''));
}
