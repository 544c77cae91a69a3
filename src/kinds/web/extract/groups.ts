// Finds lists of similar objects on a page: a list property, an ItemList, several objects of one type, or
// table rows.
import type { Facts, DataObject } from './facts.ts';
import { lookup } from './lookup.ts';
import { pathsFor, plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { JsonSchema } from './schema.ts';

/** Objects that describe the site or the page frame rather than its subject. */
const sideTypes = new Set(
  (
    'WebSite Organization BreadcrumbList ListItem WebPage SearchAction ImageObject EntryPoint ' +
    'ReadAction SiteNavigationElement WPHeader WPFooter Corporation PostalAddress ContactPoint'
  ).split(' '),
);

export function isFrameObject({ types }: DataObject): boolean {
  return sideTypes.has(types[0] ?? '');
}

/** Counts the schema fields that an object has. */
function matches({ item }: DataObject, schema: JsonSchema): number {
  const names = isRecord(schema.properties) ? Object.keys(schema.properties) : [];
  return names.filter((name) => pathsFor(name).some((path) => lookup(item, path))).length;
}

/**
 * Returns the object with the most matching fields. Objects of the page frame and deeply nested ones win only
 * by a clear margin.
 */
export function bestObject({ objects }: Facts, schema: JsonSchema): DataObject | undefined {
  let best: DataObject | undefined;
  let most = 0;
  for (const object of objects) {
    const depth = object.at.split('.').length;
    const score = matches(object, schema) - (isFrameObject(object) ? 1.5 : 0) - 0.1 * depth;
    if (score > most) [best, most] = [object, score];
  }
  return best;
}

export function nestedObject(scope: DataObject, name: string): DataObject | undefined {
  for (const path of pathsFor(name)) {
    const hit = lookup(scope.item, path);
    const item = Array.isArray(hit?.value) ? hit.value.find(isRecord) : hit?.value;
    if (isRecord(item)) return { ...scope, item, types: [], at: `${scope.at}.${hit!.path}` };
  }
  return undefined;
}

export function objectByType({ objects }: Facts, name: string): DataObject | undefined {
  const wanted = plainName(name);
  return objects.find(({ types }) => types.some((type) => plainName(type) === wanted));
}

/** Returns the groups that may be the list of objects, the most certain first. */
export function groupsFor(
  facts: Facts,
  schema: JsonSchema,
  scope: DataObject | undefined,
  name: string,
): DataObject[][] {
  const groups = isBreadcrumbs(name)
    ? [innerList(scope, name), itemList(facts, 'BreadcrumbList')]
    : [
        innerList(scope, name),
        itemList(facts, 'ItemList').filter((item) => matchesHalf(item, schema)),
        sameType(facts, schema),
        tableRows(facts, schema),
      ];
  return groups.filter((group) => group.length > 0);
}

function innerList(scope: DataObject | undefined, name: string): DataObject[] {
  if (!scope || name === '') return [];
  for (const path of pathsFor(name)) {
    const hit = lookup(scope.item, path);
    const list = Array.isArray(hit?.value) ? hit.value : [hit?.value];
    const objects = list
      .filter(isRecord)
      .map((item, i) => ({ ...scope, item, types: [], at: `${scope.at}.${hit!.path}[${i}]` }));
    if (objects.length > 0) return objects;
  }
  return [];
}

/** Breadcrumbs: the path from the home page to this page. No other list qualifies. */
const isBreadcrumbs = (name: string): boolean =>
  /^breadcrumbs?(?:list|trail|path)?$/.test(plainName(name));

/** One common name is not enough to read products as events. */
function matchesHalf(object: DataObject, schema: JsonSchema): boolean {
  const names = Object.keys(isRecord(schema.properties) ? schema.properties : {});
  return names.length === 0 || matches(object, schema) * 2 >= names.length;
}

function itemList({ objects }: Facts, type: 'ItemList' | 'BreadcrumbList'): DataObject[] {
  const list = objects.find(({ types }) => types.includes(type));
  const entries = list?.item.itemListElement;
  if (!list || !Array.isArray(entries)) return [];
  return entries.filter(isRecord).map((entry, i) => ({
    item: isRecord(entry.item) ? { ...entry, ...entry.item } : entry,
    types: [],
    kind: list.kind,
    at: `${list.at}.itemListElement[${i}]`,
  }));
}

function sameType({ objects }: Facts, schema: JsonSchema): DataObject[] {
  const groups = new Map<string, DataObject[]>();
  for (const object of objects) {
    if (object.types.length === 0 || isFrameObject(object)) continue;
    const key = `${object.kind} ${object.types.join(' ')}`;
    groups.set(key, [...(groups.get(key) ?? []), object]);
  }
  const scored = [...groups.values()]
    .filter((group) => group.length > 1 && matchesHalf(group[0]!, schema))
    .map((group) => ({ group, score: matches(group[0]!, schema) }))
    .filter(({ score }) => score > 0);
  return (
    scored.toSorted((a, b) => b.score - a.score || b.group.length - a.group.length)[0]?.group ?? []
  );
}

/**
 * A table qualifies if its headers include at least half of the requested fields, and at least two if there
 * are two.
 */
function tableRows({ tables }: Facts, schema: JsonSchema): DataObject[] {
  const names = Object.keys(isRecord(schema.properties) ? schema.properties : {});
  for (const { rows, at } of tables) {
    const hits = names.filter((name) => lookup(rows[0]!, name)).length;
    if (hits < Math.min(2, names.length) || hits * 2 < names.length) continue;
    return rows.map((item, i) => ({ item, types: [], kind: 'table', at: `${at}[${i}]` }));
  }
  return [];
}
