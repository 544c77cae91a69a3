// What a reader sees of a page: its elements of one name, and the text of one element on one line.
import { isBlockTag } from './blocks.ts';
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

/** Whoever names an element wants to see it; below it hidden is hidden. */
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
