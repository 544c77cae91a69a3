// Lists of like objects on a page: a property that is a list, an ItemList, several objects of one
// type, table rows.
import type { Facts, Thing } from './facts.ts';
import { lookup } from './lookup.ts';
import { pathsFor, plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { JsonSchema } from './schema.ts';

/** Objects that describe the site or the page's frame rather than its subject. */
const sideTypes = new Set(
  (
    'WebSite Organization BreadcrumbList ListItem WebPage SearchAction ImageObject EntryPoint ' +
    'ReadAction SiteNavigationElement WPHeader WPFooter Corporation PostalAddress ContactPoint'
  ).split(' '),
);

export function isSide({ types }: Thing): boolean {
  return sideTypes.has(types[0] ?? '');
}

/** How many of the schema's fields an object can answer. */
export function matches({ item }: Thing, schema: JsonSchema): number {
  const names = isRecord(schema.properties) ? Object.keys(schema.properties) : [];
  return names.filter((name) => pathsFor(name).some((path) => lookup(item, path))).length;
}

/**
 * The object that answers most; those of the page's frame and the deeply nested only when much
 * better.
 */
export function bestThing({ things }: Facts, schema: JsonSchema): Thing | undefined {
  let best: Thing | undefined;
  let most = 0;
  for (const thing of things) {
    const depth = thing.at.split('.').length;
    const score = matches(thing, schema) - (isSide(thing) ? 1.5 : 0) - 0.1 * depth;
    if (score > most) [best, most] = [thing, score];
  }
  return best;
}

export function innerThing(scope: Thing, name: string): Thing | undefined {
  for (const path of pathsFor(name)) {
    const hit = lookup(scope.item, path);
    const item = Array.isArray(hit?.value) ? hit.value.find(isRecord) : hit?.value;
    if (isRecord(item)) return { ...scope, item, types: [], at: `${scope.at}.${hit!.path}` };
  }
  return undefined;
}

export function namedThing({ things }: Facts, name: string): Thing | undefined {
  const wanted = plainName(name);
  return things.find(({ types }) => types.some((type) => plainName(type) === wanted));
}

/** The groups that may stand for a list of objects, the most certain first. */
export function groupsFor(
  facts: Facts,
  schema: JsonSchema,
  scope: Thing | undefined,
  name: string,
): Thing[][] {
  const groups = isTrail(name)
    ? [innerList(scope, name), itemList(facts, 'BreadcrumbList')]
    : [
        innerList(scope, name),
        itemList(facts, 'ItemList').filter((item) => answersHalf(item, schema)),
        sameType(facts, schema),
        tableRows(facts, schema),
      ];
  return groups.filter((group) => group.length > 0);
}

function innerList(scope: Thing | undefined, name: string): Thing[] {
  if (!scope || name === '') return [];
  for (const path of pathsFor(name)) {
    const hit = lookup(scope.item, path);
    const list = Array.isArray(hit?.value) ? hit.value : [hit?.value];
    const things = list
      .filter(isRecord)
      .map((item, i) => ({ ...scope, item, types: [], at: `${scope.at}.${hit!.path}[${i}]` }));
    if (things.length > 0) return things;
  }
  return [];
}

/** The way to this page from the first one: no other list is. */
const isTrail = (name: string): boolean =>
  /^breadcrumbs?(?:list|trail|path)?$/.test(plainName(name));

/** One name in common makes no events of products. */
function answersHalf(thing: Thing, schema: JsonSchema): boolean {
  const names = Object.keys(isRecord(schema.properties) ? schema.properties : {});
  return names.length === 0 || matches(thing, schema) * 2 >= names.length;
}

function itemList({ things }: Facts, type: 'ItemList' | 'BreadcrumbList'): Thing[] {
  const list = things.find(({ types }) => types.includes(type));
  const entries = list?.item.itemListElement;
  if (!list || !Array.isArray(entries)) return [];
  return entries.filter(isRecord).map((entry, i) => ({
    item: isRecord(entry.item) ? { ...entry, ...entry.item } : entry,
    types: [],
    kind: list.kind,
    at: `${list.at}.itemListElement[${i}]`,
  }));
}

function sameType({ things }: Facts, schema: JsonSchema): Thing[] {
  const groups = new Map<string, Thing[]>();
  for (const thing of things) {
    if (thing.types.length === 0 || isSide(thing)) continue;
    const key = `${thing.kind} ${thing.types.join(' ')}`;
    groups.set(key, [...(groups.get(key) ?? []), thing]);
  }
  const scored = [...groups.values()]
    .filter((group) => group.length > 1 && answersHalf(group[0]!, schema))
    .map((group) => ({ group, score: matches(group[0]!, schema) }))
    .filter(({ score }) => score > 0);
  return (
    scored.toSorted((a, b) => b.score - a.score || b.group.length - a.group.length)[0]?.group ?? []
  );
}

/**
 * A table counts when at least half of the wanted fields are among its headers (two of them, if
 * there are two).
 */
function tableRows({ tables }: Facts, schema: JsonSchema): Thing[] {
  const names = Object.keys(isRecord(schema.properties) ? schema.properties : {});
  for (const { rows, at } of tables) {
    const hits = names.filter((name) => lookup(rows[0]!, name)).length;
    if (hits < Math.min(2, names.length) || hits * 2 < names.length) continue;
    return rows.map((item, i) => ({ item, types: [], kind: 'table', at: `${at}[${i}]` }));
  }
  return [];
}
