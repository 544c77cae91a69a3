// Recognizes notes and warnings by the class names that documentation generators use (Sphinx, MkDocs,
// Docusaurus, Asciidoctor, DocBook, Doxygen, VitePress, Starlight, mdBook, GitHub) and maps them to GitHub
// alerts.
import { byName } from '../../../runtime/by-name.ts';
import { isElement, tidy, rawText, walk, type Element } from '../read/dom.ts';

type AlertKind = 'NOTE' | 'TIP' | 'IMPORTANT' | 'WARNING' | 'CAUTION';

export interface Admonition {
  kind: AlertKind;
  /** The title element. Its text is not repeated in the body. */
  title: Element | undefined;
  /** The title text, when it says more than the alert kind. */
  label: boolean;
  body: Element;
}

const kinds: Record<string, AlertKind> = byName({
  note: 'NOTE',
  info: 'NOTE',
  seealso: 'NOTE',
  todo: 'NOTE',
  abstract: 'NOTE',
  example: 'NOTE',
  question: 'NOTE',
  remark: 'NOTE',
  secondary: 'NOTE',
  tip: 'TIP',
  hint: 'TIP',
  success: 'TIP',
  important: 'IMPORTANT',
  warning: 'WARNING',
  attention: 'WARNING',
  deprecated: 'WARNING',
  caution: 'CAUTION',
  danger: 'CAUTION',
  error: 'CAUTION',
  failure: 'CAUTION',
  bug: 'CAUTION',
});
/** Class names that always mark an admonition, regardless of its kind. */
const markers =
  /^(?:admonition|admonitionblock|theme-admonition|markdown-alert|custom-block|starlight-aside|blockquote-tag|admonish)$/;
/** Class names that mark an admonition only when the element has a title. */
const titled = /^(?:alert|callout|hint|note|tip|warning|caution|important|danger|info|attention)$/;
const prefix =
  /^(?:theme-admonition|admonition|admonish|markdown-alert|alert-?|callout|hint|starlight-aside-?|blockquote-tag|is)-/;
const titleNames =
  /^(?:admonition-title|admonition-?heading.*|markdown-alert-title|custom-block-title|starlight-aside__title|blockquote-tag-title|alert-title|alert-heading|callout-title(?:-container)?|title)$/i;
const tags = new Set(['div', 'aside', 'blockquote', 'dl', 'details', 'section', 'table']);
/** A title is near the top of its note. */
const titleDepth = 5;

export function admonitionOf(element: Element): Admonition | undefined {
  if (!tags.has(element.name) || element.attribs.class === undefined) return undefined;
  const words = element.attribs.class.toLowerCase().split(/\s+/);
  const kind = words.map((word) => kinds[word.replace(prefix, '')]).find(Boolean);
  const isMarked = words.some((word) => markers.test(word));
  const isList =
    kind !== undefined &&
    (element.name === 'details' || (element.name === 'dl' && words.includes('section')));
  if (!isMarked && !isList && !(kind && words.some((word) => titled.test(word)))) return undefined;
  const title = titleOf(element);
  if (!isMarked && !title) return undefined;
  const text = title ? plain(title) : '';
  // Classes such as "note" also appear on other elements. Only those with a title are notes.
  if (!isMarked && !isList && !(text in kindLabels)) return undefined;
  const found = kind ?? kindLabels[text] ?? 'NOTE';
  return {
    kind: found,
    title,
    label: text !== '' && text !== found.toLowerCase(),
    body: bodyOf(element),
  };
}

const kindLabels: Record<string, AlertKind> = byName({ ...kinds, 'see also': 'NOTE' });

function plain(title: Element): string {
  return tidy(rawText(title))
    .toLowerCase()
    .replace(/[:.!]$/, '');
}

function titleOf(element: Element): Element | undefined {
  let found: Element | undefined;
  walk(element, (node, depth) => {
    if (found || depth > titleDepth) return false;
    if (!isElement(node) || node === element) return;
    const isTitle =
      (element.name === 'dl' && node.name === 'dt') ||
      (element.name === 'details' && node.name === 'summary') ||
      (node.attribs.class ?? '').split(/\s+/).some((word) => titleNames.test(word)) ||
      (node.name === 'td' && node.attribs.class === 'icon');
    if (isTitle) found = node;
  });
  return found;
}

/** Asciidoctor puts the icon and the text of a note side by side in a table. */
function bodyOf(element: Element): Element {
  let cell: Element | undefined;
  walk(element, (node) => {
    if (isElement(node) && node.name === 'td' && node.attribs.class === 'content') cell ??= node;
    return cell === undefined;
  });
  return cell ?? element;
}
