// Renders code as Markdown: fences with their language, and spans with enough backticks.
import { isElement, isText, withoutInvisible } from '../read/dom.ts';
import type { Element } from '../read/dom.ts';
import { codeLanguage } from './languages.ts';

export function codeSpan(text: string): string {
  const ticks = '`'.repeat(longestRun(text) + 1);
  const pad = text.startsWith('`') || text.endsWith('`') ? ' ' : '';
  return `${ticks}${pad}${text}${pad}${ticks}`;
}

type Hides = (element: Element) => boolean;

function codeText(element: Element, hides: Hides): string {
  return withoutInvisible(textWithBreaks(element, hides)).replace(/^\n+|\s+$/g, '');
}

/** Renders code where line breaks are not allowed, such as in a table row: one span per line. */
export function codeSpans(element: Element, hides: Hides): string[] {
  const lines = codeText(element, hides).split('\n');
  return lines
    .map((line) => line.trimEnd())
    .filter(Boolean)
    .map(codeSpan);
}

export function fence(element: Element, hides: Hides): string {
  const code = codeText(element, hides);
  if (code === '') return '';
  const ticks = '`'.repeat(Math.max(3, longestRun(code) + 1));
  return `${ticks}${codeLanguage(element)}\n${code}\n${ticks}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
}

const lineTags = new Set(['div', 'p', 'tr', 'li']);
/**
 * Highlighted code is only a few levels deep. Deeper nesting is not code, and the limit protects the stack.
 */
const maxNesting = 200;

/** Returns all text except hidden elements and copy buttons. */
function textWithBreaks(element: Element, hides: Hides, depth = 0): string {
  let text = '';
  for (const child of depth > maxNesting ? [] : element.children) {
    if (isText(child)) text += child.data;
    else if (isElement(child)) {
      if (child.name === 'br') text += '\n';
      else if (child.name !== 'button' && !hides(child)) {
        text += textWithBreaks(child, hides, depth + 1);
        if (lineTags.has(child.name) && !text.endsWith('\n')) text += '\n';
      }
    }
  }
  return text;
}
