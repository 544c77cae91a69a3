// Selects parts of a page by the caller's CSS selectors. cheerio's matcher works on our tree directly.
import { load } from 'cheerio/slim';
import { AppError } from '../../../errors.ts';
import type { Document, Element } from './dom.ts';
import { parseHtml } from './parse-html.ts';

const maxSelectorChars = 1000;

/** Returns matching elements in document order. An invalid selector is the caller's mistake. */
export function select(root: Document, selector: string): Element[] {
  if (selector.length > maxSelectorChars) {
    throw new AppError(
      'invalidInput',
      `The selector is longer than ${maxSelectorChars} characters.`,
    );
  }
  try {
    return load(root as never)(selector).toArray() as unknown as Element[];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('invalidInput', `Invalid CSS selector: ${selector} (${reason})`, {
      hint: 'Use CSS such as `h1`, `.price`, `td:nth-child(2)`; XPath is not supported.',
    });
  }
}

export function withoutSelected(root: Document, selectors: readonly string[]): void {
  for (const selector of selectors) {
    for (const element of select(root, selector)) detach(element);
  }
}

/** Builds a tree of only the matching elements. Nested matches are included once. */
export function onlySelected(root: Document, selectors: readonly string[]): Document {
  const chosen = new Set(selectors.flatMap((selector) => select(root, selector)));
  const top = [...chosen].filter((element) => !hasAncestorIn(element, chosen));
  const part = parseHtml('');
  for (const element of top) {
    detach(element);
    element.parent = part;
    const last = part.children.at(-1);
    if (last) last.next = element;
    element.prev = last ?? null;
    part.children.push(element);
  }
  return part;
}

function hasAncestorIn(element: Element, set: ReadonlySet<Element>): boolean {
  for (let at = element.parent; at; at = at.parent) if (set.has(at as Element)) return true;
  return false;
}

function detach(element: Element): void {
  const { parent, prev, next } = element;
  if (prev) prev.next = next;
  if (next) next.prev = prev;
  if (parent) parent.children = parent.children.filter((child) => child !== element);
  element.parent = null;
  element.prev = null;
  element.next = null;
}
