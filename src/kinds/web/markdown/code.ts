// Renders code as Markdown: fences with their language, and spans with enough backticks.
import { isElement, isText, rawText, withoutInvisible } from '../read/dom.ts';
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

/** Doxygen writes code as one element per line, without `pre`. */
export function isCodeLines({ attribs, children }: Element): boolean {
  if (attribs.class !== 'fragment') return false;
  const lines = children.filter(isElement);
  return lines.length > 0 && lines.every((line) => line.attribs.class?.split(/\s+/)[0] === 'line');
}

/** Pygments, Doxygen, Rouge and Hugo number lines within the code. */
function isLineNumber(element: Element): boolean {
  const { name, attribs } = element;
  if (name !== 'span' || !/^(?:linenos?|ln|line-numbers?)$/.test(attribs.class ?? '')) return false;
  return /^[\s\d]*$/.test(rawText(element));
}

const lineTags = new Set(['div', 'p', 'tr', 'li']);
/**
 * Highlighted code is only a few levels deep. Deeper nesting is not code, and the limit protects the stack.
 */
const maxNesting = 200;

/** Returns all text except hidden elements and copy buttons. */
function textWithBreaks(element: Element, hides: Hides, depth = 0): string {
  let text = '';
  // The line break between two line elements is only how the source is written.
  const isSpread = isCodeLines(element);
  for (const child of depth > maxNesting ? [] : element.children) {
    if (isText(child)) text += isSpread ? '' : child.data;
    else if (isElement(child)) {
      if (child.name === 'br') text += '\n';
      else if (child.name !== 'button' && !isLineNumber(child) && !hides(child)) {
        text += textWithBreaks(child, hides, depth + 1);
        if (lineTags.has(child.name) && !text.endsWith('\n')) text += '\n';
      }
    }
  }
  return text;
}
