// Renders formulas. Browsers draw them from MathML, which often contains the TeX source.
import { isElement, isText, rawText, tidy, walk } from '../read/dom.ts';
import type { Element } from '../read/dom.ts';

const maxChars = 1000;
/** Readers do not see the TeX source, so it must not contain sentences. */
const sentence = /(?:[a-z]{2,}[\s~]+){4,}[a-z]{2,}/i;

/** Returns for example `$E=mc^2$`, or an empty string if there is no formula. */
export function renderFormula(math: Element): string {
  const tex = tidy(texAnnotation(math) ?? math.attribs.alttext ?? altText(math));
  const bare = tex.replace(/^\{\\(?:display|text)style\s*(.*)\}$/, '$1').trim();
  if (bare === '' || bare.length > maxChars || sentence.test(bare)) return '';
  return `$${bare}$`;
}

function texAnnotation(math: Element): string | undefined {
  let found: string | undefined;
  walk(math, (node) => {
    if (!isElement(node) || node.name !== 'annotation') return;
    if (/tex/i.test(node.attribs.encoding ?? '')) found ??= rawText(node);
  });
  return found;
}

function altText(math: Element): string {
  let text = '';
  walk(math, (node) => {
    if (isText(node)) text += node.data.trim();
    return !(isElement(node) && node.name.startsWith('annotation'));
  });
  return text;
}
