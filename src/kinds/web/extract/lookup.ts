// Finding values: a path in an object of the page's data (names compared loosely), or a selector
// in the page.
import type { Document, Element } from '../content/dom.ts';
import { select } from '../content/selectors.ts';
import { textOf, type Source } from './facts.ts';
import { plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';

export type SelectorRule =
  | string
  | { selector: string; attribute?: string; fields?: Record<string, SelectorRule> };

export interface Candidate {
  value: unknown;
  source: Source;
}

export const itemsMax = 1000;

export interface Hit {
  value: unknown;
  path: string;
}

export function lookup(item: Record<string, unknown>, path: string): Hit | undefined {
  let at: unknown = item;
  const taken: string[] = [];
  for (const part of path.split('.')) {
    if (Array.isArray(at)) at = at.find(isRecord) ?? at;
    if (!isRecord(at)) return undefined;
    const key = keyLike(at, part);
    if (key === undefined) return undefined;
    taken.push(key);
    at = at[key];
  }
  return at === null || at === undefined || at === ''
    ? undefined
    : { value: at, path: taken.join('.') };
}

function keyLike(item: Record<string, unknown>, name: string): string | undefined {
  if (Object.hasOwn(item, name)) return name;
  const wanted = plainName(name);
  return Object.keys(item).find((key) => !key.startsWith('@') && plainName(key) === wanted);
}

/** `selector` or `selector@attribute`; the text of every match, or its attribute. */
export function selected(page: Document, rule: SelectorRule): Candidate[] {
  const given = typeof rule === 'string' ? rule : rule.selector;
  const short = typeof rule === 'string' ? /^(.*\S)\s*@([\w-]+)$/.exec(rule) : null;
  const selector = short?.[1] ?? given;
  const attribute = short?.[2] ?? (typeof rule === 'string' ? undefined : rule.attribute);
  const read = (element: Element) =>
    attribute === undefined
      ? (element.attribs.content ?? textOf(element))
      : element.attribs[attribute];
  const values = select(page, selector)
    .slice(0, itemsMax)
    .map(read)
    .filter((value) => value !== undefined && value !== '');
  return values.length === 0 ? [] : [{ value: values, source: { kind: 'selector', at: given } }];
}

export function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}
