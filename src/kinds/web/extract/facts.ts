// Everything a page states in a form a machine can read without guessing, each with where it was
// found: JSON-LD, microdata, RDFa, OpenGraph and meta tags, tables and definition lists.
import { setOwn } from '../../../runtime/by-name.ts';
import { isElement } from '../content/dom.ts';
import type { Document, Element } from '../content/dom.ts';
import type { Visibility } from '../content/hidden.ts';
import { visibleElements, visibleText } from '../content/visible.ts';
import type { DataItem, PageMetadata, StructuredData } from '../content/types.ts';
import { isRecord } from '../../../runtime/json.ts';

export type SourceKind =
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

/** An object of the page's data, and where it stands. */
export interface Thing {
  item: Record<string, unknown>;
  types: string[];
  kind: 'json-ld' | 'microdata' | 'rdfa' | 'table';
  at: string;
}

export interface Pair {
  label: string;
  value: string;
  source: Source;
}

export interface RowTable {
  rows: Record<string, string>[];
  at: string;
}

export interface Facts {
  things: Thing[];
  pairs: Pair[];
  tables: RowTable[];
}

const thingsMax = 2000;
const depthMax = 6;
const pairsMax = 2000;
const tablesMax = 50;
const rowsMax = 1000;

/** A parsed page, and what of it nobody sees. */
export interface SeenPage {
  root: Document;
  hidden: Visibility;
}

export function pageFacts(page: SeenPage, data: StructuredData, metadata: PageMetadata): Facts {
  const things: Thing[] = [];
  const ids = byId(data.jsonLd);
  data.jsonLd.forEach((item, i) =>
    addThing(things, resolved(item, ids, 0), 'json-ld', `[${i}]`, 0),
  );
  data.microdata.forEach((item, i) => addThing(things, item, 'microdata', `[${i}]`, 0));
  data.rdfa.forEach((item, i) => addThing(things, item, 'rdfa', `[${i}]`, 0));
  return {
    things,
    pairs: [...metaPairs(metadata), ...tablePairs(page)].slice(0, pairsMax),
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

/** A value that is only {"@id": …} stands for the node of that name. */
function resolved(value: DataItem, ids: ReadonlyMap<string, DataItem>, depth: number): DataItem {
  if (depth > depthMax) return value;
  const result: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(value))
    setOwn(result, key, resolvedValue(child, ids, depth + 1));
  return result;
}

function resolvedValue(value: unknown, ids: ReadonlyMap<string, DataItem>, depth: number): unknown {
  if (Array.isArray(value))
    return value.slice(0, 1000).map((entry) => resolvedValue(entry, ids, depth));
  if (!isRecord(value)) return value;
  const id = value['@id'];
  const target =
    typeof id === 'string' && Object.keys(value).length === 1 ? ids.get(id) : undefined;
  return resolved(target ?? value, ids, depth);
}

function addThing(
  things: Thing[],
  value: unknown,
  kind: Thing['kind'],
  at: string,
  depth: number,
): void {
  if (things.length >= thingsMax || depth > depthMax) return;
  if (Array.isArray(value)) {
    value.forEach((entry, i) => addThing(things, entry, kind, `${at}[${i}]`, depth + 1));
    return;
  }
  if (!isRecord(value)) return;
  const types = typesOf(value);
  if (types.length > 0 || depth === 0) things.push({ item: value, types, kind, at });
  for (const [key, child] of Object.entries(value)) {
    if (typeof child === 'object') addThing(things, child, kind, `${at}.${key}`, depth + 1);
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

function tablePairs({ root, hidden }: SeenPage): Pair[] {
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

/** Tables with a header row, as rows of named values. */
function rowTables({ root, hidden }: SeenPage): RowTable[] {
  const tables: RowTable[] = [];
  visibleElements(root, 'table', hidden)
    .slice(0, tablesMax)
    .forEach((table, index) => {
      const rows = visibleElements(table, 'tr', hidden)
        .slice(0, rowsMax)
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
