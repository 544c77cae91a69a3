// Detects word boundaries that only styles create. Cards, buttons and menus are often adjacent links and
// spans without a space in the source ("Ankle" and "Comfy" as two lines of a card). Without this, they would
// merge into one word that the page does not show.
import { isElement, type Element, type Text } from './dom.ts';

/** Elements that style part of a word and do not end it. */
const marks = new Set(
  (
    'abbr acronym b bdi bdo big cite code del dfn em font i ins kbd mark nobr q rb rt ruby s small ' +
    'strike strong sub sup tt u var wbr'
  ).split(' '),
);
/**
 * Maximum number of ancestors checked per text. Parts of one run have few elements of their own, and code
 * highlighting says nothing about words.
 */
const maxLevels = 8;

/** Whether `after` starts a new word although nothing separates it from `before`. */
export function startsNewWord(before: Text, after: Text): boolean {
  const [left, right] = [before.data, after.data];
  if (!/[\p{L}\p{N}]$/u.test(left.slice(-2)) || !/^[\p{L}\p{N}]/u.test(right)) return false;
  // Drop caps, and words set letter by letter.
  if (left.length === 1 && (right.length === 1 || /\p{L}/u.test(left))) return false;
  const opened = ancestorsOf(after);
  if (opened.some(({ name }) => name === 'pre' || name === 'code')) return false;
  const closed = ancestorsOf(before);
  const shared = closed.find((element) => opened.includes(element));
  return shared !== undefined && endsWord(closed, shared) && endsWord(opened, shared);
}

/** Returns the ancestors of a text, nearest first. */
function ancestorsOf(text: Text): Element[] {
  const found: Element[] = [];
  let at = text.parent;
  while (found.length < maxLevels && isElement(at)) {
    found.push(at);
    at = at.parent;
  }
  return found;
}

/** Whether there is an element that ends a word below the shared ancestor. */
function endsWord(list: readonly Element[], shared: Element): boolean {
  return list.slice(0, list.indexOf(shared)).some(({ name }) => !marks.has(name));
}
