// Finds values: by a path in a data object (names compared loosely), or by a selector in the page.
import type { Element } from '../read/dom.ts';
import { select } from '../read/selectors.ts';
import { visibleText } from '../read/visible.ts';
import type { VisiblePage, Source } from './facts.ts';
import { plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';

export type SelectorRule =
  | string
  | { selector: string; attribute?: string; fields?: Record<string, SelectorRule> };

export interface Candidate {
  value: unknown;
  source: Source;
}

export const maxItems = 1000;

interface Hit {
  value: unknown;
  path: string;
}

export function lookup(item: Record<string, unknown>, path: string): Hit | undefined {
  let at: unknown = item;
  const matchedKeys: string[] = [];
  for (const part of path.split('.')) {
    if (Array.isArray(at)) at = at.find(isRecord) ?? at;
    if (!isRecord(at)) return undefined;
    const key = findKey(at, part);
    if (key === undefined) return undefined;
    matchedKeys.push(key);
    at = at[key];
  }
  return at === null || at === undefined || at === ''
    ? undefined
    : { value: at, path: matchedKeys.join('.') };
}

function findKey(item: Record<string, unknown>, name: string): string | undefined {
  if (Object.hasOwn(item, name)) return name;
  const wanted = plainName(name);
  const keys = Object.keys(item).filter((key) => !key.startsWith('@'));
  return (
    keys.find((key) => plainName(key) === wanted) ??
    // Header names may end with a unit in parentheses: "Price (EUR)".
    keys.find((key) => key.endsWith(')') && plainName(key.replace(/\([^()]*\)$/, '')) === wanted)
  );
}

/** Evaluates `selector` or `selector@attribute`: the text of every match, or its attribute. */
export function selectValues({ root, hidden }: VisiblePage, rule: SelectorRule): Candidate[] {
  const given = typeof rule === 'string' ? rule : rule.selector;
  const short = typeof rule === 'string' ? /^(.*\S)\s*@([\w-]+)$/.exec(rule) : null;
  const selector = short?.[1] ?? given;
  const attribute = short?.[2] ?? (typeof rule === 'string' ? undefined : rule.attribute);
  const read = (element: Element) =>
    attribute === undefined
      ? (element.attribs.content ?? visibleText(element, hidden))
      : element.attribs[attribute];
  const values = select(root, selector)
    .slice(0, maxItems)
    .map(read)
    .filter((value) => value !== undefined && value !== '');
  return values.length === 0 ? [] : [{ value: values, source: { kind: 'selector', at: given } }];
}

export function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}
