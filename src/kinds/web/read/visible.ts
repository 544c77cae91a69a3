// Returns the visible elements of a page by tag name, and the visible text of an element on one line.
import { isBlockTag } from '../main-content/blocks.ts';
import { isElement, isText, tidy, walk, type AnyNode, type Element } from './dom.ts';
import { Visibility } from './hidden.ts';

export function visibleElements(root: AnyNode, tag: string, hidden: Visibility): Element[] {
  const found: Element[] = [];
  walk(root, (node) => {
    if (!isElement(node)) return;
    if (node !== root && hidden.hides(node)) return false;
    if (node.name === tag) found.push(node);
  });
  return found;
}

/**
 * The root itself always counts as visible, because the caller selected it. Hidden elements below it are
 * skipped.
 */
export function visibleText(root: AnyNode, hidden = new Visibility(root)): string {
  const parts: string[] = [];
  walk(root, (node) => {
    if (isText(node)) parts.push(node.data);
    else if (isElement(node)) {
      if (node !== root && hidden.hides(node)) return false;
      if (isBlockTag(node.name) || node.name === 'br') parts.push(' ');
    }
  });
  return tidy(parts.join(''));
}
