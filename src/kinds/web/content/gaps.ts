// Words that stand apart only by style: cards, buttons and menus are often links and spans side by
// side without a space between them in the source ("Ankle" and "Comfy" as two lines of a card).
// Read as they are written they would become one word that nobody sees on the page.
import { isElement, type Element, type Text } from './dom.ts';

/** These change how a part of a word looks, and do not end it. */
const marks = new Set(
  (
    'abbr acronym b bdi bdo big cite code del dfn em font i ins kbd mark nobr q rb rt ruby s small ' +
    'strike strong sub sup tt u var wbr'
  ).split(' '),
);
/**
 * Looked at above each text: the parts of a run have few elements of their own. Colours of code say
 * nothing about words.
 */
const levelsMax = 8;

/** Whether `after` begins a word of its own though nothing separates it from `before`. */
export function isApart(before: Text, after: Text): boolean {
  const [left, right] = [before.data, after.data];
  if (!/[\p{L}\p{N}]$/u.test(left.slice(-2)) || !/^[\p{L}\p{N}]/u.test(right)) return false;
  // A large first letter, and words set letter by letter.
  if (left.length === 1 && (right.length === 1 || /\p{L}/u.test(left))) return false;
  const opened = above(after);
  if (opened.some(({ name }) => name === 'pre' || name === 'code')) return false;
  const closed = above(before);
  const shared = closed.find((element) => opened.includes(element));
  return shared !== undefined && endsWord(closed, shared) && endsWord(opened, shared);
}

/** The elements above a text, nearest first. */
function above(text: Text): Element[] {
  const found: Element[] = [];
  let at = text.parent;
  while (found.length < levelsMax && isElement(at)) {
    found.push(at);
    at = at.parent;
  }
  return found;
}

/** Whether an element that stands for itself lies below the shared one. */
function endsWord(list: readonly Element[], shared: Element): boolean {
  return list.slice(0, list.indexOf(shared)).some(({ name }) => !marks.has(name));
}
