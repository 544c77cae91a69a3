// Handles small parts of a page: Markdown escapes, heading marks, copy buttons and checkboxes.
import { isElement, rawText, walk, type AnyNode, type Element } from '../read/dom.ts';
import { strong, toMarkdown } from './literals.ts';

export function blockquote(text: string): string {
  return text.replace(/^/gm, '> ').replace(/^> $/gm, '>');
}

const controlLabel = /^(?:run|copy|copy code|play|try it|try it yourself|edit|expand|collapse)$/i;

/** A link or button that runs or copies code, or the language label next to code. */
export function isControl(element: Element): boolean {
  const { name, attribs } = element;
  if (name !== 'a' && name !== 'button' && name !== 'span') return false;
  if (name === 'a' && /(?:^|\s)(?:test-arrow|copybtn)(?:\s|$)/.test(attribs.class ?? ''))
    return true;
  if (name === 'span' && attribs.class !== 'lang') return false;
  if (name !== 'button' && !isCode(before(element)) && !isCode(after(element))) return false;
  if (name === 'span') return true;
  return controlLabel.test(rawText(element).trim());
}

const isCode = (node: AnyNode | null): boolean => isElement(node) && node.name === 'pre';

function before({ prev }: Element): AnyNode | null {
  let at: AnyNode | null = prev;
  while (at && !isElement(at)) at = at.prev;
  return at;
}

function after({ next }: Element): AnyNode | null {
  let at: AnyNode | null = next;
  while (at && !isElement(at)) at = at.next;
  return at;
}

export function hasHeading(element: Element): boolean {
  let found = false;
  walk(element, (node) => {
    found ||= isElement(node) && /^h[1-6]$/.test(node.name);
    return !found;
  });
  return found;
}

/** The permalink mark of a heading. */
export function isPermalink(href: string | undefined, text: string): boolean {
  return href !== undefined && href.includes('#') && /^(?:¶|#|§|🔗|\u{F0C1})$/u.test(text);
}

export function heading(level: number, text: string): string {
  if (text === '') return '';
  // Trailing `#` characters would be parsed as the end of the heading.
  return `${'#'.repeat(level)} ${toMarkdown(text).replace(/(^|\s)(#+)$/, '$1\\$2')}`;
}

export function toStrong(text: string): string {
  return text === '' ? '' : toMarkdown(`${strong[0]}${text}${strong[1]}`);
}

export function parseOrdinal(attribute: string | undefined): number | undefined {
  const number = Number.parseInt(attribute ?? '', 10);
  return number >= 0 ? number : undefined;
}

export function listItem(mark: string, body: string): string {
  if (body === '') return '';
  return mark + body.replace(/\n(?=[^\n])/g, `\n${' '.repeat(mark.length)}`);
}

/** Moves spaces at the ends of an inline element outside its markup. */
export function wrapTrimmed(inner: string, marked: string): string {
  return `${/^\s/.test(inner) ? ' ' : ''}${marked}${/\s$/.test(inner) ? ' ' : ''}`;
}

/** Only for task lists. Elsewhere a checkbox is a page control. */
export function checkbox({ attribs, parent }: Element): string {
  const above = parent && isElement(parent) && parent.name !== 'li' ? parent.parent : parent;
  if (attribs.type !== 'checkbox' || !above || !isElement(above) || above.name !== 'li') return '';
  return 'checked' in attribs ? '[x] ' : '[ ] ';
}
