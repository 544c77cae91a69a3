// Text of pages that a script would have drawn: long strings in the JSON a page carries along
// (application/json scripts, data attributes, JSON-LD). Used only when the visible page has next
// to nothing.
import { elements, isElement, parseHtml, rawText, tidy, walk } from './dom.ts';
import type { AnyNode } from './dom.ts';

const stringsMax = 400;
const charsMin = 80;
const sourceCharsMax = 4_000_000;
const nodesMax = 100_000;
const nestingMax = 60;

const textKeys = new Set(
  (
    'cooked body bodyhtml body_html content contents text html description shortdescription ' +
    'longdescription articlebody reviewbody answer markdown rendered message paragraph value ' +
    'acceptedanswer caption summary bio'
  ).split(' '),
);

/** Texts in the order found, each once; HTML strings as they are. */
export function embeddedTexts(root: AnyNode): string[] {
  const found = new Map<string, string>();
  for (const source of sources(root)) {
    if (source.length > sourceCharsMax) continue;
    collect(parse(source), found);
    if (found.size >= stringsMax) break;
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
      if (value !== undefined && value.length > charsMin) list.push(value);
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
  for (let seen = 0; stack.length > 0 && seen < nodesMax && found.size < stringsMax; seen++) {
    const { value, key, depth } = stack.pop()!;
    if (depth > nestingMax) continue;
    if (typeof value === 'string') {
      if (/^\s*[[{]/.test(value) && value.length > charsMin) {
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
  if (value.length < charsMin || !textKeys.has(key.toLowerCase())) return;
  const plain = /<[a-z]/i.test(value) ? tidy(rawText(parseHtml(value))) : tidy(value);
  // Prose has spaces; code, style sheets and tokens have braces or none.
  if (
    plain.length < charsMin ||
    plain.split(' ').length < 12 ||
    /[{};]{2}|function\s*\(/.test(plain)
  )
    return;
  const mark = plain.slice(0, 200);
  if (!found.has(mark)) found.set(mark, value);
}
