// Rejects NUL characters in declared strings, because a database text column cannot store them. Fields that accept any
// JSON are stored escaped and may contain them.
import type { z } from 'zod';
import { AppError } from '../errors.ts';
import { isRecord } from './json.ts';

interface CheckedOperation {
  name: string;
  input: z.ZodType;
  /** Paths of fields whose text may contain NUL. */
  allowsNul?: readonly string[];
}

export function rejectNul({ name, input, allowsNul = [] }: CheckedOperation, value: unknown): void {
  if (isFlatWithoutNul(value)) return;
  const path = nulPath(input, value, { path: '', allowed: allowsNul });
  if (path === undefined) return;
  const message = 'must not contain a NUL character';
  throw new AppError('invalidInput', `Invalid input for ${name}: ${path}: ${message}`, {
    hint: 'Remove the NUL character, or pass binary data as base64.',
    data: { issues: [{ path, message, code: 'custom' }] },
  });
}

/** Most inputs: then the schema does not matter. */
function isFlatWithoutNul(value: unknown): boolean {
  for (const name in value as object) {
    if (name.includes('\0') || mayContainNul((value as Record<string, unknown>)[name]))
      return false;
  }
  return !mayContainNul(value) || isRecord(value);
}

/** The path of the first declared string that contains NUL. */
function nulPath(
  schema: unknown,
  value: unknown,
  { path, allowed }: { path: string; allowed: readonly string[] },
): string | undefined {
  if (allowed.includes(path)) return undefined;
  if (typeof value === 'string') {
    return value.includes('\0') && typeOf(schema) === 'string' ? path || 'input' : undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, inner, part] of childrenOf(schema, value)) {
    if (name.includes('\0')) return path || 'input';
    if (!mayContainNul(part)) continue;
    const at = { path: path === '' ? name : `${path}.${name}`, allowed };
    const found = nulPath(unwrap(inner), part, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Cheaper than looking at the schema: most values contain none. */
const mayContainNul = (value: unknown): boolean =>
  typeof value === 'string' ? value.includes('\0') : typeof value === 'object' && value !== null;

type Child = [name: string, schema: unknown, part: unknown];

function childrenOf(schema: unknown, value: object): Child[] {
  switch (typeOf(schema) ?? 'unknown') {
    case 'union':
      return (schema as z.ZodUnion).options.flatMap((option) => childrenOf(unwrap(option), value));
    case 'intersection': {
      const { left, right } = (schema as z.ZodIntersection).def;
      return [left, right].flatMap((part) => childrenOf(unwrap(part), value));
    }
    case 'array': {
      const { element } = schema as z.ZodArray;
      return Array.isArray(value) ? value.map((part, i): Child => [String(i), element, part]) : [];
    }
    case 'object': {
      const shape = (schema as z.ZodObject).shape as Record<string, unknown>;
      const schemaOf = (name: string) => (Object.hasOwn(shape, name) ? shape[name] : undefined);
      return Object.entries(value).map(([name, part]) => [name, schemaOf(name), part]);
    }
    case 'record': {
      const { valueType } = schema as z.ZodRecord;
      if (typeOf(valueType) === 'unknown') return [];
      return Object.entries(value).map(([name, part]) => [name, valueType, part]);
    }
    default:
      return [];
  }
}

const typeOf = (schema: unknown): string | undefined => (schema as z.ZodType | undefined)?.def.type;

const wrappers: ReadonlySet<unknown> = new Set(['optional', 'nullable', 'default', 'prefault']);

/** Unwraps optional, nullable and default schemas. */
function unwrap(schema: unknown): unknown {
  let at = schema;
  while (wrappers.has(typeOf(at))) at = (at as z.ZodOptional).unwrap();
  return at;
}
