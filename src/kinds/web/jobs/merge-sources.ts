// Merges data from several sources: joins lists, chooses single values by majority, and reports the sources of every value
// and all conflicts.
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

interface Merged {
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
    const stated = records.flatMap(({ url, data }) => {
      const value = ownValue(data, name);
      return isStated(value) ? [{ url, value }] : [];
    });
    if (stated.length === 0) setOwn(merged, name, null);
    else if (stated.every(({ value }) => Array.isArray(value))) {
      setOwn(merged, name, mergeLists(stated, field, provenance));
    } else if (stated.every(({ value }) => isRecord(value))) {
      const inner = stated.map(({ url, value }) => ({ url, data: value as Fields }));
      setOwn(merged, name, mergeRecords(inner, field, provenance, conflicts));
    } else setOwn(merged, name, mergeValues(stated, field, provenance, conflicts));
  }
  return merged;
}

function mergeLists(
  stated: readonly { url: string; value: unknown }[],
  field: string,
  provenance: Record<string, string[]>,
): unknown[] {
  const byText = new Map<string, unknown>();
  for (const { value } of stated)
    for (const item of value as unknown[]) byText.set(canonical(item), item);
  setOwn(
    provenance,
    field,
    stated.map(({ url }) => url),
  );
  return [...byText.values()];
}

function mergeValues(
  stated: readonly { url: string; value: unknown }[],
  field: string,
  provenance: Record<string, string[]>,
  conflicts: Conflict[],
): unknown {
  const groups = new Map<string, { value: unknown; sources: string[] }>();
  for (const { url, value } of stated) {
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
