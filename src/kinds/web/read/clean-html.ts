// Renders the selected part of a page as small, safe HTML: structure and URLs, without styles, scripts or
// event handlers.
import { isBlockTag } from '../main-content/blocks.ts';
import { isElement, isText, withoutInvisible } from './dom.ts';
import type { AnyNode, Element, Text } from './dom.ts';
import { startsNewWord } from './word-gaps.ts';
import { imageSource } from './head.ts';
import type { Selection } from './selection.ts';

const keptAttributes = new Set([
  'alt',
  'title',
  'colspan',
  'rowspan',
  'datetime',
  'lang',
  'start',
  'scope',
]);
const emptyTags = new Set(['br', 'hr', 'img', 'wbr']);
const maxNesting = 300;

export function renderHtml(
  root: AnyNode,
  selection: Selection,
  resolve: (href: string) => string | undefined,
): string {
  let before: Text | undefined;
  const render = (node: AnyNode, depth: number): string => {
    if (isText(node)) {
      if (!selection.has(node)) return space(node.data);
      const gap = before && startsNewWord(before, node) ? ' ' : '';
      before = node;
      return gap + escapeText(withoutInvisible(node.data));
    }
    if (!('children' in node)) return '';
    if (isElement(node) && !wanted(node)) return '';
    if (isElement(node) && emptyTags.has(node.name)) return tag(node);
    if (depth > maxNesting) return '';
    const isBlock = isElement(node) && isBlockTag(node.name);
    if (isBlock) before = undefined;
    const inner = node.children.map((child) => render(child, depth + 1)).join('');
    if (isBlock) before = undefined;
    if (!isElement(node) || /^(?:html|body)$/.test(node.name)) return inner;
    if (isPlainWrapper(node)) return inner;
    return `${tag(node)}${inner}</${node.name}>`;
  };
  const wanted = (element: Element): boolean => {
    if (element.name === 'img') return imageSource(element.attribs) !== undefined;
    return emptyTags.has(element.name) || selection.has(element);
  };
  const tag = ({ name, attribs }: Element): string => {
    const kept = Object.entries(attribs).filter(([key]) => keptAttributes.has(key));
    const href = name === 'a' && attribs.href !== undefined ? resolve(attribs.href) : undefined;
    const source = name === 'img' ? imageSource(attribs) : undefined;
    const src = source === undefined ? undefined : resolve(source);
    if (href !== undefined) kept.push(['href', href]);
    if (src !== undefined) kept.push(['src', src]);
    return `<${name}${kept.map(([key, value]) => ` ${key}="${escapeValue(value)}"`).join('')}>`;
  };
  return render(root, 0)
    .replace(/\s*\n\s*/g, '\n')
    .trim();
}

/** Wrappers that only carried a style. */
function isPlainWrapper({ name }: Element): boolean {
  return name === 'span' || name === 'font' || name === 'center' || name.includes('-');
}

function space(text: string): string {
  return /\s/.test(text) ? ' ' : '';
}

function escapeText(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

function escapeValue(text: string): string {
  return escapeText(text).replace(/"/g, '&quot;');
}
