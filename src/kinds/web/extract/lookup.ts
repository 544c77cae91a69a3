// Finding values: a path in an object of the page's data (names compared loosely), or a selector
// in the page.
import type { Element } from '../content/dom.ts';
import { select } from '../content/selectors.ts';
import { visibleText } from '../content/visible.ts';
import type { SeenPage, Source } from './facts.ts';
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
  const keys = Object.keys(item).filter((key) => !key.startsWith('@'));
  return (
    keys.find((key) => plainName(key) === wanted) ??
    // Units stand in brackets: "Price (EUR)".
    keys.find((key) => key.endsWith(')') && plainName(key.replace(/\([^()]*\)$/, '')) === wanted)
  );
}

/** `selector` or `selector@attribute`; the text of every match, or its attribute. */
export function selected({ root, hidden }: SeenPage, rule: SelectorRule): Candidate[] {
  const given = typeof rule === 'string' ? rule : rule.selector;
  const short = typeof rule === 'string' ? /^(.*\S)\s*@([\w-]+)$/.exec(rule) : null;
  const selector = short?.[1] ?? given;
  const attribute = short?.[2] ?? (typeof rule === 'string' ? undefined : rule.attribute);
  const read = (element: Element) =>
    attribute === undefined
      ? (element.attribs.content ?? visibleText(element, hidden))
      : element.attribs[attribute];
  const values = select(root, selector)
    .slice(0, itemsMax)
    .map(read)
    .filter((value) => value !== undefined && value !== '');
  return values.length === 0 ? [] : [{ value: values, source: { kind: 'selector', at: given } }];
}

export function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}
