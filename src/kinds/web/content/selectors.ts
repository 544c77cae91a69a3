// Parts of a page by the caller's CSS selectors. cheerio's matcher reads our tree as it is.
import { load } from 'cheerio/slim';
import { AppError } from '../../../errors.ts';
import { parseHtml, type Document, type Element } from './dom.ts';

const selectorCharsMax = 1000;

/**
 * Elements that match, in document order. A selector that cannot be read is the caller's mistake.
 */
export function select(root: Document, selector: string): Element[] {
  if (selector.length > selectorCharsMax) {
    throw new AppError(
      'invalidInput',
      `The selector is longer than ${selectorCharsMax} characters.`,
    );
  }
  try {
    return load(root as never)(selector).toArray() as unknown as Element[];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('invalidInput', `Not a CSS selector: ${selector} (${reason})`, {
      hint: 'Use CSS such as `h1`, `.price`, `td:nth-child(2)`; XPath is not understood.',
    });
  }
}

export function withoutSelected(root: Document, selectors: readonly string[]): void {
  for (const selector of selectors) {
    for (const element of select(root, selector)) detach(element);
  }
}

/** A tree of only the matching elements; one inside another is taken once. */
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
