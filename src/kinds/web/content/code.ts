// Code of a page: fences with their language, spans with enough backticks around them.
import { isElement, isText, withoutInvisible } from './dom.ts';
import type { Element } from './dom.ts';

export function codeSpan(text: string): string {
  const ticks = '`'.repeat(longestRun(text) + 1);
  const pad = text.startsWith('`') || text.endsWith('`') ? ' ' : '';
  return `${ticks}${pad}${text}${pad}${ticks}`;
}

export function fence(element: Element, hides: (element: Element) => boolean): string {
  const code = withoutInvisible(withBreaks(element, hides)).replace(/^\n+|\s+$/g, '');
  if (code === '') return '';
  const ticks = '`'.repeat(Math.max(3, longestRun(code) + 1));
  return `${ticks}${codeLanguage(element)}\n${code}\n${ticks}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
}

const lineTags = new Set(['div', 'p', 'tr', 'li']);
/** Coloured code is a few levels deep; what lies deeper than any stack is no code. */
const nestingMax = 200;

/** All of it but what a reader does not see and the buttons beside it. */
function withBreaks(element: Element, hides: (element: Element) => boolean, depth = 0): string {
  let text = '';
  for (const child of depth > nestingMax ? [] : element.children) {
    if (isText(child)) text += child.data;
    else if (isElement(child)) {
      if (child.name === 'br') text += '\n';
      else if (child.name !== 'button' && !hides(child)) {
        text += withBreaks(child, hides, depth + 1);
        if (lineTags.has(child.name) && !text.endsWith('\n')) text += '\n';
      }
    }
  }
  return text;
}

const languageMarks = 'language|lang|brush:|highlight-source|highlight|sourceCode|prettyprint lang';
const languageClass = new RegExp(
  String.raw`(?:^|\s)(?:${languageMarks})[-:\s]*([a-z0-9+#]{1,20})(?=\s|$|;)`,
  'i',
);

function codeLanguage(pre: Element): string {
  const code = pre.children.find(
    (child): child is Element => isElement(child) && child.name === 'code',
  );
  const near = [code, pre, isElement(pre.parent) ? pre.parent : undefined];
  for (const element of near) {
    if (!element) continue;
    const named = element.attribs['data-lang'] ?? element.attribs['data-language'];
    if (named !== undefined && /^[\w+#-]{1,20}$/.test(named)) return named.toLowerCase();
    const match = languageClass.exec(element.attribs.class ?? '')?.[1];
    if (match !== undefined && !/^(?:none|plain|highlight|default|copy)$/i.test(match))
      return match.toLowerCase();
  }
  return '';
}
