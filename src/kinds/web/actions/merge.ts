// Data of several sources as one: lists together, single values by majority, every value with where it comes from, and
// every disagreement shown instead of settled in silence. Pure.
import { ownValue, setOwn } from '../../../runtime/by-name.ts';
import { canonicalJson, isRecord } from '../../../runtime/json.ts';

export interface Sourced {
  url: string;
  data: unknown;
}

export interface Conflict {
  field: string;
  values: { value: unknown; sources: string[] }[];
}

export interface Merged {
  data: unknown;
  provenance: Record<string, string[]>;
  conflicts: Conflict[];
}

type Fields = Record<string, unknown>;

export function merge(all: readonly Sourced[]): Merged {
  const provenance: Record<string, string[]> = {};
  const conflicts: Conflict[] = [];
  const records = all.flatMap(({ url, data }) => (isRecord(data) ? [{ url, data }] : []));
  const data = mergeRecords(records, '', provenance, conflicts);
  return { data, provenance, conflicts };
}

function mergeRecords(
  records: readonly { url: string; data: Fields }[],
  path: string,
  provenance: Record<string, string[]>,
  conflicts: Conflict[],
): Fields {
  const merged: Fields = {};
  const names = new Set(records.flatMap(({ data }) => Object.keys(data)));
  for (const name of names) {
    const field = path === '' ? name : `${path}.${name}`;
    const told = records.flatMap(({ url, data }) => {
      const value = ownValue(data, name);
      return isStated(value) ? [{ url, value }] : [];
    });
    if (told.length === 0) setOwn(merged, name, null);
    else if (told.every(({ value }) => Array.isArray(value))) {
      setOwn(merged, name, mergeLists(told, field, provenance));
    } else if (told.every(({ value }) => isRecord(value))) {
      const inner = told.map(({ url, value }) => ({ url, data: value as Fields }));
      setOwn(merged, name, mergeRecords(inner, field, provenance, conflicts));
    } else setOwn(merged, name, mergeValues(told, field, provenance, conflicts));
  }
  return merged;
}

function mergeLists(
  told: readonly { url: string; value: unknown }[],
  field: string,
  provenance: Record<string, string[]>,
): unknown[] {
  const byText = new Map<string, unknown>();
  for (const { value } of told)
    for (const item of value as unknown[]) byText.set(canonical(item), item);
  setOwn(
    provenance,
    field,
    told.map(({ url }) => url),
  );
  return [...byText.values()];
}

function mergeValues(
  told: readonly { url: string; value: unknown }[],
  field: string,
  provenance: Record<string, string[]>,
  conflicts: Conflict[],
): unknown {
  const groups = new Map<string, { value: unknown; sources: string[] }>();
  for (const { url, value } of told) {
    const key = canonical(value);
    const group = groups.get(key) ?? { value, sources: [] };
    group.sources.push(url);
    groups.set(key, group);
  }
  const values = [...groups.values()].toSorted((a, b) => b.sources.length - a.sources.length);
  setOwn(provenance, field, values[0]!.sources);
  if (values.length > 1) conflicts.push({ field, values });
  return values[0]!.value;
}

const isStated = (value: unknown): boolean => value !== null && value !== undefined && value !== '';

function canonical(value: unknown): string {
  if (typeof value === 'string') return value.trim().toLowerCase().replace(/\s+/g, ' ');
  return canonicalJson(value);
}
