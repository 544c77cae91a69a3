// Finds the text of script-rendered pages: long strings in JSON inside the page (application/json scripts,
// data attributes, JSON-LD). Used only when the visible page has almost no text.
import { elements, isElement, rawText, tidy, walk } from './dom.ts';
import { parseHtml } from './parse-html.ts';
import type { AnyNode } from './dom.ts';

const maxStrings = 400;
const minChars = 80;
const maxSourceChars = 4_000_000;
const maxNodes = 100_000;
const maxNesting = 60;

const textKeys = new Set(
  (
    'cooked body bodyhtml body_html content contents text html description shortdescription ' +
    'longdescription articlebody reviewbody answer markdown rendered message paragraph value ' +
    'acceptedanswer caption summary bio'
  ).split(' '),
);

/** Returns each text once, in document order. HTML strings stay HTML. */
export function embeddedTexts(root: AnyNode): string[] {
  const found = new Map<string, string>();
  for (const source of sources(root)) {
    if (source.length > maxSourceChars) continue;
    collect(parse(source), found);
    if (found.size >= maxStrings) break;
  }
  return [...found.values()];
}

function sources(root: AnyNode): string[] {
  const list: string[] = [];
  for (const script of elements(root, 'script')) {
    if (/json/i.test(script.attribs.type ?? '')) list.push(rawText(script));
  }
  walk(root, (node) => {
    if (!isElement(node)) return;
    for (const name of ['data-preloaded', 'data-page', 'data-props', 'data-state']) {
      const value = node.attribs[name];
      if (value !== undefined && value.length > minChars) list.push(value);
    }
  });
  return list;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function collect(start: unknown, found: Map<string, string>): void {
  const stack: { value: unknown; key: string; depth: number }[] = [
    { value: start, key: '', depth: 0 },
  ];
  for (let seen = 0; stack.length > 0 && seen < maxNodes && found.size < maxStrings; seen++) {
    const { value, key, depth } = stack.pop()!;
    if (depth > maxNesting) continue;
    if (typeof value === 'string') {
      if (/^\s*[[{]/.test(value) && value.length > minChars) {
        stack.push({ value: parse(value), key, depth: depth + 1 });
      } else keep(key, value, found);
    } else if (Array.isArray(value)) {
      for (const entry of value.toReversed()) stack.push({ value: entry, key, depth: depth + 1 });
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, entry] of Object.entries(value).toReversed()) {
        stack.push({ value: entry, key: name, depth: depth + 1 });
      }
    }
  }
}

function keep(key: string, value: string, found: Map<string, string>): void {
  if (value.length < minChars || !textKeys.has(key.toLowerCase())) return;
  const plain = /<[a-z]/i.test(value) ? tidy(rawText(parseHtml(value))) : tidy(value);
  // Prose has spaces. Code, style sheets and tokens have braces or no spaces.
  if (
    plain.length < minChars ||
    plain.split(' ').length < 12 ||
    /[{};]{2}|function\s*\(/.test(plain)
  )
    return;
  const mark = plain.slice(0, 200);
  if (!found.has(mark)) found.set(mark, value);
}
