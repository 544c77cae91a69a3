// Collects everything a page states in machine-readable form, each with its location: JSON-LD, microdata,
// RDFa, OpenGraph and meta tags, tables and definition lists.
import { setOwn } from '../../../runtime/by-name.ts';
import { isElement } from '../read/dom.ts';
import type { Document, Element } from '../read/dom.ts';
import type { Visibility } from '../read/hidden.ts';
import { visibleElements, visibleText } from '../read/visible.ts';
import type { DataItem, PageMetadata, StructuredData } from '../read/types.ts';
import { isRecord } from '../../../runtime/json.ts';

type SourceKind =
  | 'json-ld'
  | 'microdata'
  | 'rdfa'
  | 'opengraph'
  | 'meta'
  | 'table'
  | 'selector'
  | 'model';

export interface Source {
  kind: SourceKind;
  /** Path, tag name, table label or selector. */
  at: string;
}

/** An object in the page's data, and its location. */
export interface DataObject {
  item: Record<string, unknown>;
  types: string[];
  kind: 'json-ld' | 'microdata' | 'rdfa' | 'table';
  at: string;
}

interface Pair {
  label: string;
  value: string;
  source: Source;
}

interface RowTable {
  rows: Record<string, string>[];
  at: string;
}

export interface Facts {
  objects: DataObject[];
  pairs: Pair[];
  tables: RowTable[];
}

const maxObjects = 2000;
const maxDepth = 6;
const maxPairs = 2000;
const maxTables = 50;
const maxRows = 1000;

/** A parsed page and its visibility rules. */
export interface VisiblePage {
  root: Document;
  hidden: Visibility;
}

export function pageFacts(page: VisiblePage, data: StructuredData, metadata: PageMetadata): Facts {
  const objects: DataObject[] = [];
  const ids = byId(data.jsonLd);
  data.jsonLd.forEach((item, i) =>
    addObject(objects, resolveIds(item, ids, 0), { kind: 'json-ld', at: `[${i}]`, depth: 0 }),
  );
  data.microdata.forEach((item, i) =>
    addObject(objects, item, { kind: 'microdata', at: `[${i}]`, depth: 0 }),
  );
  data.rdfa.forEach((item, i) =>
    addObject(objects, item, { kind: 'rdfa', at: `[${i}]`, depth: 0 }),
  );
  return {
    objects,
    pairs: [...metaPairs(metadata), ...tablePairs(page)].slice(0, maxPairs),
    tables: rowTables(page),
  };
}

function byId(items: readonly DataItem[]): Map<string, DataItem> {
  const ids = new Map<string, DataItem>();
  for (const item of items) {
    const id = item['@id'];
    if (typeof id === 'string' && Object.keys(item).length > 1) ids.set(id, item);
  }
  return ids;
}

/** Replaces a value that is only {"@id": …} with the node of that id. */
function resolveIds(value: DataItem, ids: ReadonlyMap<string, DataItem>, depth: number): DataItem {
  if (depth > maxDepth) return value;
  const result: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(value))
    setOwn(result, key, resolveValue(child, ids, depth + 1));
  return result;
}

function resolveValue(value: unknown, ids: ReadonlyMap<string, DataItem>, depth: number): unknown {
  if (Array.isArray(value))
    return value.slice(0, 1000).map((entry) => resolveValue(entry, ids, depth));
  if (!isRecord(value)) return value;
  const id = value['@id'];
  const target =
    typeof id === 'string' && Object.keys(value).length === 1 ? ids.get(id) : undefined;
  return resolveIds(target ?? value, ids, depth);
}

function addObject(
  objects: DataObject[],
  value: unknown,
  { kind, at, depth }: { kind: DataObject['kind']; at: string; depth: number },
): void {
  if (objects.length >= maxObjects || depth > maxDepth) return;
  if (Array.isArray(value)) {
    value.forEach((entry, i) =>
      addObject(objects, entry, { kind, at: `${at}[${i}]`, depth: depth + 1 }),
    );
    return;
  }
  if (!isRecord(value)) return;
  const types = typesOf(value);
  if (types.length > 0 || depth === 0) objects.push({ item: value, types, kind, at });
  for (const [key, child] of Object.entries(value)) {
    if (typeof child === 'object')
      addObject(objects, child, { kind, at: `${at}.${key}`, depth: depth + 1 });
  }
}

function typesOf(item: Record<string, unknown>): string[] {
  const type = item['@type'];
  const list = Array.isArray(type) ? type : [type];
  return list
    .filter((name): name is string => typeof name === 'string')
    .map((name) => name.replace(/^.*[/#:]/, ''));
}

function metaPairs(metadata: PageMetadata): Pair[] {
  const pairs: Pair[] = [];
  for (const [name, value] of Object.entries(metadata.social)) {
    const kind = name.startsWith('og:') || name.startsWith('product:') ? 'opengraph' : 'meta';
    pairs.push({
      label: name.replace(/^(?:og|twitter|article|product|book|profile):/, ''),
      value,
      source: { kind, at: name },
    });
  }
  const { social: _social, keywords, feeds: _feeds, ...rest } = metadata;
  for (const [name, value] of Object.entries(rest))
    pairs.push({ label: name, value: String(value), source: { kind: 'meta', at: name } });
  if (keywords)
    pairs.push({
      label: 'keywords',
      value: keywords.join(', '),
      source: { kind: 'meta', at: 'keywords' },
    });
  return pairs;
}

function tablePairs({ root, hidden }: VisiblePage): Pair[] {
  const pairs: Pair[] = [];
  const add = (label: string, value: string) => {
    const name = label.replace(/[:：]\s*$/, '').trim();
    if (name === '' || name.length > 80 || value === '' || value.length > 2000) return;
    pairs.push({ label: name, value, source: { kind: 'table', at: name } });
  };
  for (const row of visibleElements(root, 'tr', hidden)) {
    const cells = cellsOf(row);
    if (cells.length === 2) add(visibleText(cells[0]!, hidden), visibleText(cells[1]!, hidden));
  }
  for (const list of visibleElements(root, 'dl', hidden)) {
    let term = '';
    for (const entry of dlEntries(list)) {
      if (entry.name === 'dt') term = visibleText(entry, hidden);
      else if (term !== '') add(term, visibleText(entry, hidden));
    }
  }
  return pairs;
}

function dlEntries(list: Element): Element[] {
  const direct = list.children.filter(isElement);
  return direct
    .flatMap((child) => (child.name === 'div' ? child.children.filter(isElement) : [child]))
    .filter(({ name }) => name === 'dt' || name === 'dd');
}

/** Reads tables with a header row as rows of named values. */
function rowTables({ root, hidden }: VisiblePage): RowTable[] {
  const tables: RowTable[] = [];
  visibleElements(root, 'table', hidden)
    .slice(0, maxTables)
    .forEach((table, index) => {
      const rows = visibleElements(table, 'tr', hidden)
        .slice(0, maxRows)
        .map((row) => cellsOf(row));
      const header = rows.findIndex(
        (cells) => cells.length >= 2 && cells.every(({ name }) => name === 'th'),
      );
      if (header < 0) return;
      const names = rows[header]!.map((cell) => visibleText(cell, hidden));
      const body = rows.slice(header + 1).filter((cells) => cells.length === names.length);
      if (body.length === 0) return;
      const read = body.map((cells) =>
        Object.fromEntries(cells.map((cell, i) => [names[i]!, visibleText(cell, hidden)])),
      );
      tables.push({ rows: read, at: `table[${index}]` });
    });
  return tables;
}

function cellsOf(row: Element): Element[] {
  return row.children.filter(
    (child): child is Element => isElement(child) && (child.name === 'td' || child.name === 'th'),
  );
}
