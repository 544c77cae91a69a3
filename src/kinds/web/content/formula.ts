// Formulas: browsers draw them from MathML, and what they mean stands in it as TeX.
import { isElement, isText, rawText, tidy, walk } from './dom.ts';
import type { Element } from './dom.ts';

const charsMax = 1000;
/** Nobody sees the TeX of a formula, so sentences do not belong there. */
const sentence = /(?:[a-z]{2,}[\s~]+){4,}[a-z]{2,}/i;

/** `$E=mc^2$`; empty where it is none. */
export function formula(math: Element): string {
  const tex = tidy(annotation(math) ?? math.attribs.alttext ?? spoken(math));
  const bare = tex.replace(/^\{\\(?:display|text)style\s*(.*)\}$/, '$1').trim();
  if (bare === '' || bare.length > charsMax || sentence.test(bare)) return '';
  return `$${bare}$`;
}

function annotation(math: Element): string | undefined {
  let found: string | undefined;
  walk(math, (node) => {
    if (!isElement(node) || node.name !== 'annotation') return;
    if (/tex/i.test(node.attribs.encoding ?? '')) found ??= rawText(node);
  });
  return found;
}

function spoken(math: Element): string {
  let text = '';
  walk(math, (node) => {
    if (isText(node)) text += node.data.trim();
    return !(isElement(node) && node.name.startsWith('annotation'));
  });
  return text;
}
