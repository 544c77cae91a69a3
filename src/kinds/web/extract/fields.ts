// Fills a schema from a page's facts. Every value records its source; a field without a source stays null,
// with a reason. Source order: JSON-LD, microdata, RDFa, OpenGraph and meta, tables, the caller's selectors.
// If sources disagree, the first one wins and the others are listed as alternatives.
import { setOwn } from '../../../runtime/by-name.ts';
import { parseHtml } from '../read/parse-html.ts';
import { select } from '../read/selectors.ts';
import type { Facts, VisiblePage, Source, DataObject } from './facts.ts';
import { bestObject, groupsFor, nestedObject, isFrameObject, objectByType } from './groups.ts';
import {
  firstOf,
  maxItems,
  lookup,
  selectValues,
  type Candidate,
  type SelectorRule,
} from './lookup.ts';
import { pathsFor, plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { JsonSchema } from './schema.ts';
import { fit, resolveSchema, typeOf } from './values.ts';

export interface FoundField {
  /** JSON pointer into the data. */
  path: string;
  source: Source;
  /** Different values from other sources. */
  alternatives?: { value: unknown; source: Source }[];
}

export interface MissingField {
  path: string;
  reason: string;
}

/** One position in the schema, and where its value may come from. */
interface Slot {
  path: string;
  name: string;
  schema: JsonSchema;
  scope: DataObject | undefined;
  rule: SelectorRule | undefined;
  depth: number;
}

type Rules = Record<string, SelectorRule>;

const maxAlternatives = 5;
const maxDepth = 12;

export class SchemaFiller {
  readonly found: FoundField[] = [];
  readonly missing: MissingField[] = [];
  private readonly facts: Facts;
  private readonly root: JsonSchema;
  private readonly page: VisiblePage;
  private readonly base: string;

  constructor(facts: Facts, root: JsonSchema, page: VisiblePage, base: string) {
    this.facts = facts;
    this.root = root;
    this.page = page;
    this.base = base;
  }

  fill(rules: Rules): unknown {
    const schema = resolveSchema(this.root, this.root);
    if (typeOf(schema) === 'array') {
      return (
        this.list({ path: '', name: '', schema, scope: undefined, rule: rules[''], depth: 0 }) ?? []
      );
    }
    return this.object({ path: '', schema, scope: bestObject(this.facts, schema), depth: 0 }, rules)
      .value;
  }

  private object(
    { path, schema, scope, depth }: Pick<Slot, 'path' | 'schema' | 'scope' | 'depth'>,
    rules: Rules,
  ) {
    const value: Record<string, unknown> = {};
    const properties = isRecord(schema.properties) ? schema.properties : {};
    for (const [name, raw] of Object.entries(properties)) {
      const own = resolveSchema(raw, this.root);
      const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
      const slot = {
        path: `${path}/${escapePointer(name)}`,
        name,
        schema: own,
        scope,
        rule,
        depth: depth + 1,
      };
      setOwn(value, name, this.property(slot) ?? null);
    }
    return { value, any: Object.values(value).some((entry) => entry !== null) };
  }

  private property(slot: Slot): unknown {
    const type = typeOf(slot.schema);
    if (slot.depth > maxDepth) return undefined;
    if (type === 'object' && isRecord(slot.schema.properties)) return this.nested(slot);
    if (type === 'array') return this.list(slot);
    const found = this.candidates(slot);
    const fitting = found
      .map(({ value, source }) => ({ value: fit(firstOf(value), slot.schema, this.base), source }))
      .filter(({ value }) => value !== undefined);
    const best = fitting[0];
    if (!best) return this.addMissing(slot, missingReason(slot.name, type, found));
    this.keep(slot.path, best, fitting);
    return best.value;
  }

  private addMissing({ path }: Slot, reason: string): undefined {
    this.missing.push({ path, reason });
    return undefined;
  }

  private keep(path: string, best: Candidate, all: readonly Candidate[]): void {
    const own = JSON.stringify(best.value);
    const others = new Map(all.map((other) => [JSON.stringify(other.value), other]));
    others.delete(own);
    const alternatives = [...others.values()].slice(0, maxAlternatives);
    this.found.push({
      path,
      source: best.source,
      ...(alternatives.length > 0 ? { alternatives } : {}),
    });
  }

  private nested(slot: Slot): unknown {
    const { path, name, schema, scope, rule, depth } = slot;
    const inner =
      (scope && nestedObject(scope, name)) ??
      objectByType(this.facts, name) ??
      (depth === 1 ? bestObject(this.facts, schema) : undefined);
    const rules = isRecord(rule) && isRecord(rule.fields) ? (rule.fields as Rules) : {};
    const before = this.missing.length;
    const { value, any } = this.object({ path, schema, scope: inner, depth }, rules);
    if (any) return value;
    this.missing.splice(before);
    return this.addMissing(slot, `The page states nothing that matches ${name}.`);
  }

  private list(slot: Slot): unknown {
    const items = resolveSchema(slot.schema.items, this.root);
    if (typeOf(items) === 'object') return this.objects(slot, items);
    const found = this.candidates(slot);
    for (const { value, source } of found) {
      const entries = Array.isArray(value) ? value : splitList(slot.name, value);
      const fitting = entries
        .map((entry) => fit(entry, items, this.base))
        .filter((entry) => entry !== undefined);
      if (fitting.length === 0) continue;
      this.found.push({ path: slot.path, source });
      return fitting.slice(0, maxItems);
    }
    return this.addMissing(slot, missingReason(slot.name || 'the list', 'array', found));
  }

  private objects(slot: Slot, items: JsonSchema): unknown {
    for (const objects of groupsFor(this.facts, items, slot.scope, slot.name)) {
      const values = this.each(slot, items, objects);
      if (values.length > 0) return values;
    }
    const cards = slot.rule === undefined ? [] : this.cards(slot.path, items, slot.rule);
    if (cards.length > 0) return cards;
    return this.addMissing(
      slot,
      `The page has no list or table that matches ${slot.name || 'the items'}.`,
    );
  }

  private each(slot: Slot, items: JsonSchema, objects: readonly DataObject[]): unknown[] {
    const values: unknown[] = [];
    for (const object of objects.slice(0, maxItems)) {
      const path = `${slot.path}/${values.length}`;
      const value = this.unlessEmpty(
        () => this.object({ path, schema: items, scope: object, depth: slot.depth + 1 }, {}).value,
      );
      if (value) values.push(value);
    }
    return values;
  }

  /** Reads objects by selector: one per match of the outer selector, with fields from the inner selectors. */
  private cards(path: string, items: JsonSchema, rule: SelectorRule): unknown[] {
    const { selector, fields = {} } = typeof rule === 'string' ? { selector: rule } : rule;
    const values: unknown[] = [];
    for (const card of select(this.page.root, selector).slice(0, maxItems)) {
      const root = parseHtml('');
      root.children.push(card);
      const at = `${path}/${values.length}`;
      const value = this.unlessEmpty(() => this.card(at, items, { ...this.page, root }, fields));
      if (value) values.push(value);
    }
    return values;
  }

  private card(path: string, items: JsonSchema, part: VisiblePage, rules: Rules) {
    const value: Record<string, unknown> = {};
    for (const [name, raw] of Object.entries(isRecord(items.properties) ? items.properties : {})) {
      const schema = resolveSchema(raw, this.root);
      const hit = Object.hasOwn(rules, name) ? selectValues(part, rules[name]!)[0] : undefined;
      const own = hit && fit(firstOf(hit.value), schema, this.base);
      const at = `${path}/${escapePointer(name)}`;
      setOwn(value, name, own ?? null);
      if (own !== undefined) this.found.push({ path: at, source: hit!.source });
      else {
        const reason = missingReason(name, typeOf(schema), hit ? [hit] : []);
        this.missing.push({ path: at, reason });
      }
    }
    return value;
  }

  /** Drops an object without any value, together with its missing fields. */
  private unlessEmpty(fill: () => Record<string, unknown>): Record<string, unknown> | undefined {
    const [found, missing] = [this.found.length, this.missing.length];
    const value = fill();
    if (Object.values(value).some((entry) => entry !== null)) return value;
    this.found.splice(found);
    this.missing.splice(missing);
    return undefined;
  }

  private candidates({ name, scope, depth, rule }: Slot): Candidate[] {
    const list: Candidate[] = [];
    for (const path of scope ? pathsFor(name) : []) {
      const hit = lookup(scope!.item, path);
      if (hit)
        list.push({
          value: hit.value,
          source: { kind: scope!.kind, at: `${scope!.at}.${hit.path}` },
        });
    }
    if (depth <= 1) list.push(...this.fromOtherObject(name, scope), ...this.labelled(name));
    if (rule !== undefined) list.push(...selectValues(this.page, rule));
    return list;
  }

  private labelled(name: string): Candidate[] {
    const wanted = new Set(pathsFor(name).map(plainName));
    return this.facts.pairs.filter(({ label }) => wanted.has(plainName(label)));
  }

  /** Finds the only other object on the page that has this property. */
  private fromOtherObject(name: string, scope: DataObject | undefined): Candidate[] {
    const hits: Candidate[] = [];
    if (scope && commonNames.has(plainName(name))) return hits;
    for (const object of this.facts.objects) {
      const hit = object === scope || isFrameObject(object) ? undefined : lookup(object.item, name);
      if (hit)
        hits.push({
          value: hit.value,
          source: { kind: object.kind, at: `${object.at}.${hit.path}` },
        });
    }
    return hits.length === 1 ? hits : [];
  }
}

/** Names that every object has. The value of another object says nothing about this one. */
const commonNames = new Set('name title url link image description text id identifier'.split(' '));

function escapePointer(name: string): string {
  return name.replace(/~/g, '~0').replace(/\//g, '~1');
}

function splitList(name: string, value: unknown): unknown[] {
  if (typeof value !== 'string' || !/^(?:tags|keywords)$/.test(plainName(name))) return [value];
  const words = value.split(',').map((word) => word.trim());
  return words.filter(Boolean);
}

function missingReason(name: string, type: string, found: readonly Candidate[]): string {
  const [first] = found;
  if (!first) return `No structured data, meta tag, table or selector provides ${name}.`;
  const text = JSON.stringify(firstOf(first.value))?.slice(0, 80);
  return `${first.source.kind} (${first.source.at}) contains ${text}, which cannot be read as ${type} without guessing.`;
}
