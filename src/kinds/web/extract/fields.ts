// Fills a schema from a page's facts. Every value remembers its source; a field that no source
// states stays null and says why. Sources in order: JSON-LD, microdata, RDFa, OpenGraph and meta,
// tables, the caller's selectors; when two disagree the first is taken and the other is shown.
import { setOwn } from '../../../runtime/by-name.ts';
import { parseHtml } from '../content/dom.ts';
import { select } from '../content/selectors.ts';
import type { Facts, SeenPage, Source, Thing } from './facts.ts';
import { bestThing, groupsFor, innerThing, isSide, namedThing } from './groups.ts';
import {
  firstOf,
  itemsMax,
  lookup,
  selected,
  type Candidate,
  type SelectorRule,
} from './lookup.ts';
import { pathsFor, plainName } from './names.ts';
import { isRecord } from '../../../runtime/json.ts';
import type { JsonSchema } from './schema.ts';
import { fit, targetOf, typeOf } from './values.ts';

export interface FoundField {
  /** JSON pointer into the data. */
  path: string;
  source: Source;
  /** What other sources say, where it differs. */
  alternatives?: { value: unknown; source: Source }[];
}

export interface MissingField {
  path: string;
  reason: string;
}

/** One place in the schema, and what may answer it. */
interface Slot {
  path: string;
  name: string;
  schema: JsonSchema;
  scope: Thing | undefined;
  rule: SelectorRule | undefined;
  depth: number;
}

type Rules = Record<string, SelectorRule>;

const alternativesMax = 5;
const depthMax = 12;

export class Filler {
  readonly found: FoundField[] = [];
  readonly missing: MissingField[] = [];
  private readonly facts: Facts;
  private readonly root: JsonSchema;
  private readonly page: SeenPage;
  private readonly base: string;

  constructor(facts: Facts, root: JsonSchema, page: SeenPage, base: string) {
    this.facts = facts;
    this.root = root;
    this.page = page;
    this.base = base;
  }

  fill(rules: Rules): unknown {
    const schema = targetOf(this.root, this.root);
    if (typeOf(schema) === 'array') {
      return (
        this.list({ path: '', name: '', schema, scope: undefined, rule: rules[''], depth: 0 }) ?? []
      );
    }
    return this.object('', schema, bestThing(this.facts, schema), rules, 0).value;
  }

  private object(
    path: string,
    schema: JsonSchema,
    scope: Thing | undefined,
    rules: Rules,
    depth: number,
  ) {
    const value: Record<string, unknown> = {};
    const properties = isRecord(schema.properties) ? schema.properties : {};
    for (const [name, raw] of Object.entries(properties)) {
      const own = targetOf(raw, this.root);
      const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
      const slot = {
        path: `${path}/${escaped(name)}`,
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
    if (slot.depth > depthMax) return undefined;
    if (type === 'object' && isRecord(slot.schema.properties)) return this.nested(slot);
    if (type === 'array') return this.list(slot);
    const seen = this.candidates(slot);
    const fitting = seen
      .map(({ value, source }) => ({ value: fit(firstOf(value), slot.schema, this.base), source }))
      .filter(({ value }) => value !== undefined);
    const best = fitting[0];
    if (!best) return this.lacks(slot, whyMissing(slot.name, type, seen));
    this.keep(slot.path, best, fitting);
    return best.value;
  }

  private lacks({ path }: Slot, reason: string): undefined {
    this.missing.push({ path, reason });
    return undefined;
  }

  private keep(path: string, best: Candidate, all: readonly Candidate[]): void {
    const own = JSON.stringify(best.value);
    const others = new Map(all.map((other) => [JSON.stringify(other.value), other]));
    others.delete(own);
    const alternatives = [...others.values()].slice(0, alternativesMax);
    this.found.push({
      path,
      source: best.source,
      ...(alternatives.length > 0 ? { alternatives } : {}),
    });
  }

  private nested(slot: Slot): unknown {
    const { path, name, schema, scope, rule, depth } = slot;
    const inner =
      (scope && innerThing(scope, name)) ??
      namedThing(this.facts, name) ??
      (depth === 1 ? bestThing(this.facts, schema) : undefined);
    const rules = isRecord(rule) && isRecord(rule.fields) ? (rule.fields as Rules) : {};
    const before = this.missing.length;
    const { value, any } = this.object(path, schema, inner, rules, depth);
    if (any) return value;
    this.missing.splice(before);
    return this.lacks(slot, `The page states nothing that fits ${name}.`);
  }

  private list(slot: Slot): unknown {
    const items = targetOf(slot.schema.items, this.root);
    if (typeOf(items) === 'object') return this.objects(slot, items);
    const seen = this.candidates(slot);
    for (const { value, source } of seen) {
      const entries = Array.isArray(value) ? value : splitList(slot.name, value);
      const fitting = entries
        .map((entry) => fit(entry, items, this.base))
        .filter((entry) => entry !== undefined);
      if (fitting.length === 0) continue;
      this.found.push({ path: slot.path, source });
      return fitting.slice(0, itemsMax);
    }
    return this.lacks(slot, whyMissing(slot.name || 'the list', 'array', seen));
  }

  private objects(slot: Slot, items: JsonSchema): unknown {
    for (const things of groupsFor(this.facts, items, slot.scope, slot.name)) {
      const values = this.each(slot, items, things);
      if (values.length > 0) return values;
    }
    const cards = slot.rule === undefined ? [] : this.cards(slot.path, items, slot.rule);
    if (cards.length > 0) return cards;
    return this.lacks(slot, `The page has no list or table that fits ${slot.name || 'the items'}.`);
  }

  private each(slot: Slot, items: JsonSchema, things: readonly Thing[]): unknown[] {
    const values: unknown[] = [];
    for (const thing of things.slice(0, itemsMax)) {
      const path = `${slot.path}/${values.length}`;
      const value = this.ifAny(() => this.object(path, items, thing, {}, slot.depth + 1).value);
      if (value) values.push(value);
    }
    return values;
  }

  /** Objects by selector: one match of the outer selector each, its fields by inner selectors. */
  private cards(path: string, items: JsonSchema, rule: SelectorRule): unknown[] {
    const { selector, fields = {} } = typeof rule === 'string' ? { selector: rule } : rule;
    const values: unknown[] = [];
    for (const card of select(this.page.root, selector).slice(0, itemsMax)) {
      const root = parseHtml('');
      root.children.push(card);
      const at = `${path}/${values.length}`;
      const value = this.ifAny(() => this.card(at, items, { ...this.page, root }, fields));
      if (value) values.push(value);
    }
    return values;
  }

  private card(path: string, items: JsonSchema, part: SeenPage, rules: Rules) {
    const value: Record<string, unknown> = {};
    for (const [name, raw] of Object.entries(isRecord(items.properties) ? items.properties : {})) {
      const schema = targetOf(raw, this.root);
      const hit = Object.hasOwn(rules, name) ? selected(part, rules[name]!)[0] : undefined;
      const own = hit && fit(firstOf(hit.value), schema, this.base);
      const at = `${path}/${escaped(name)}`;
      setOwn(value, name, own ?? null);
      if (own !== undefined) this.found.push({ path: at, source: hit!.source });
      else {
        const reason = whyMissing(name, typeOf(schema), hit ? [hit] : []);
        this.missing.push({ path: at, reason });
      }
    }
    return value;
  }

  /** An object of which nothing is stated is none, and lacks nothing. */
  private ifAny(fill: () => Record<string, unknown>): Record<string, unknown> | undefined {
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
    if (depth <= 1) list.push(...this.elsewhere(name, scope), ...this.paired(name));
    if (rule !== undefined) list.push(...selected(this.page, rule));
    return list;
  }

  private paired(name: string): Candidate[] {
    const wanted = new Set(pathsFor(name).map(plainName));
    return this.facts.pairs.filter(({ label }) => wanted.has(plainName(label)));
  }

  /** Another object of the page that alone has this very property. */
  private elsewhere(name: string, scope: Thing | undefined): Candidate[] {
    const hits: Candidate[] = [];
    if (scope && commonNames.has(plainName(name))) return hits;
    for (const thing of this.facts.things) {
      const hit = thing === scope || isSide(thing) ? undefined : lookup(thing.item, name);
      if (hit)
        hits.push({
          value: hit.value,
          source: { kind: thing.kind, at: `${thing.at}.${hit.path}` },
        });
    }
    return hits.length === 1 ? hits : [];
  }
}

/** Every object has these of its own: those of another say nothing about this one. */
const commonNames = new Set('name title url link image description text id identifier'.split(' '));

function escaped(name: string): string {
  return name.replace(/~/g, '~0').replace(/\//g, '~1');
}

function splitList(name: string, value: unknown): unknown[] {
  if (typeof value !== 'string' || !/^(?:tags|keywords)$/.test(plainName(name))) return [value];
  const words = value.split(',').map((word) => word.trim());
  return words.filter(Boolean);
}

function whyMissing(name: string, type: string, seen: readonly Candidate[]): string {
  const [first] = seen;
  if (!first) return `No structured data, meta tag, table or selector of the page states ${name}.`;
  const shown = JSON.stringify(firstOf(first.value))?.slice(0, 80);
  return `${first.source.kind} (${first.source.at}) says ${shown}, which is no ${type} that can be read without guessing.`;
}
