// Reads machine-readable data: JSON-LD (with @graph and @id references), microdata and RDFa Lite, all
// converted to one shape, so that callers handle only one.
import { ownValue, setOwn } from '../../../runtime/by-name.ts';
import { isRecord } from '../../../runtime/json.ts';
import { isElement, rawText, tidy, walk } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';
import type { DataItem, StructuredData } from './types.ts';

const maxItems = 500;
const maxBlockChars = 2_000_000;
const maxNesting = 40;

function jsonLdItems(blocks: readonly string[]): { items: DataItem[]; broken: number } {
  const items: DataItem[] = [];
  let broken = 0;
  for (const block of blocks) {
    const value = parseLenientJson(block);
    if (value === undefined) broken++;
    else flatten(value, items, 0);
  }
  return { items, broken };
}

/**
 * Parses JSON as it occurs on real pages: comment wrappers, CDATA, control characters inside strings, a
 * trailing semicolon.
 */
function parseLenientJson(block: string): unknown {
  if (block.length > maxBlockChars) return undefined;
  const text = block
    .replace(/^\s*(?:<!--|\/\/\s*<!\[CDATA\[|<!\[CDATA\[|\/\*\s*<!\[CDATA\[\s*\*\/)/, '')
    .replace(/(?:-->|\/\/\s*\]\]>|\]\]>|\/\*\s*\]\]>\s*\*\/)\s*$/, '')
    .trim();
  if (text === '') return [];
  // eslint-disable-next-line no-control-regex -- raw line breaks inside strings are the usual fault
  for (const candidate of [text, text.replace(/[\u0000-\u001F]+/g, ' ').replace(/;\s*$/, '')]) {
    try {
      return JSON.parse(candidate);
    } catch {
      continue;
    }
  }
  return undefined;
}

function flatten(value: unknown, items: DataItem[], depth: number): void {
  if (depth > maxNesting || items.length >= maxItems) return;
  if (Array.isArray(value)) {
    for (const entry of value) flatten(entry, items, depth + 1);
    return;
  }
  if (!isRecord(value)) return;
  if (Array.isArray(value['@graph'])) {
    flatten(value['@graph'], items, depth + 1);
    if (value['@type'] === undefined) return;
  }
  items.push(value);
}

export function structuredData(
  root: AnyNode,
  ldBlocks: readonly string[],
  base: string,
): StructuredData {
  const { items, broken } = jsonLdItems(ldBlocks);
  return {
    jsonLd: items,
    microdata: markedItems(root, base, microdataMarks),
    rdfa: markedItems(root, base, rdfaMarks),
    broken,
  };
}

interface Marks {
  /** Returns the type names that this element declares, or undefined. */
  item(element: Element): string[] | undefined;
  properties(element: Element): string[];
}

const microdataMarks: Marks = {
  item: ({ attribs }) => ('itemscope' in attribs ? typeNames(attribs.itemtype) : undefined),
  properties: ({ attribs }) => splitNames(attribs.itemprop),
};

const rdfaMarks: Marks = {
  item: ({ attribs }) => (attribs.typeof !== undefined ? typeNames(attribs.typeof) : undefined),
  properties: ({ attribs, name }) =>
    name === 'meta' &&
    attribs.content !== undefined &&
    /^(?:og|fb|twitter|article):/.test(attribs.property ?? '')
      ? []
      : splitNames(attribs.property),
};

function splitNames(value: string | undefined): string[] {
  if (value === undefined) return [];
  return value
    .split(/\s+/)
    .filter(Boolean)
    .map((name) => name.replace(/^.*[/#:]/, ''));
}

function typeNames(value: string | undefined): string[] {
  return splitNames(value);
}

function markedItems(root: AnyNode, base: string, marks: Marks): DataItem[] {
  const top: DataItem[] = [];
  const open: { element: Element; item: DataItem }[] = [];
  walk(
    root,
    (node) => {
      if (!isElement(node) || top.length >= maxItems) return;
      const types = marks.item(node);
      const properties = marks.properties(node);
      const parent = open.at(-1)?.item;
      if (types) {
        const item: DataItem = { '@type': types.length === 1 ? types[0]! : types };
        if (parent && properties.length > 0)
          for (const name of properties) addValue(parent, name, item);
        else top.push(item);
        if (open.length < maxNesting) open.push({ element: node, item });
        return;
      }
      if (parent) for (const name of properties) addValue(parent, name, valueOf(node, base));
    },
    (element) => {
      if (open.at(-1)?.element === element) open.pop();
    },
  );
  return top;
}

function addValue(item: DataItem, name: string, value: unknown): void {
  const before = ownValue(item, name);
  if (Array.isArray(before)) before.push(value);
  else setOwn(item, name, before === undefined ? value : [before, value]);
}

const maxValueChars = 20_000;

function valueOf(element: Element, base: string): string {
  const { name, attribs } = element;
  if (attribs.content !== undefined) return attribs.content.trim();
  const address = attribs.href ?? attribs.src ?? attribs.resource;
  if (address !== undefined && name !== 'span' && name !== 'div') {
    return URL.parse(address, base)?.href ?? address;
  }
  if (name === 'time' && attribs.datetime !== undefined) return attribs.datetime;
  if ((name === 'data' || name === 'meter') && attribs.value !== undefined) return attribs.value;
  return tidy(rawText(element)).slice(0, maxValueChars);
}
