// Rejects NUL characters in declared strings, because a database text column cannot store them. Fields that accept any
// JSON are stored escaped and may contain them.
import { z } from 'zod';
import { AppError } from '../errors.ts';

interface CheckedOperation {
  name: string;
  input: z.ZodType;
  /** Paths of fields whose text may contain NUL. */
  allowsNul?: readonly string[];
}

export function rejectNul({ name, input, allowsNul = [] }: CheckedOperation, value: unknown): void {
  const path = nulPath(input, value, { path: '', allowed: allowsNul });
  if (path === undefined) return;
  const message = 'must not contain a NUL character';
  throw new AppError('invalidInput', `Invalid input for ${name}: ${path}: ${message}`, {
    hint: 'Remove the NUL character, or pass binary data as base64.',
    data: { issues: [{ path, message, code: 'custom' }] },
  });
}

/** The path of the first declared string that contains NUL. */
function nulPath(
  schema: unknown,
  value: unknown,
  { path, allowed }: { path: string; allowed: readonly string[] },
): string | undefined {
  if (allowed.includes(path)) return undefined;
  if (typeof value === 'string') {
    const isText = schema instanceof z.ZodString || schema instanceof z.ZodStringFormat;
    return isText && value.includes('\0') ? path || 'input' : undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, inner, part] of childrenOf(schema, value)) {
    if (name.includes('\0')) return path || 'input';
    const at = { path: path === '' ? name : `${path}.${name}`, allowed };
    const found = nulPath(unwrap(inner), part, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

function childrenOf(
  schema: unknown,
  value: object,
): [name: string, schema: unknown, part: unknown][] {
  if (schema instanceof z.ZodUnion)
    return schema.options.flatMap((option) => childrenOf(unwrap(option), value));
  if (schema instanceof z.ZodIntersection)
    return [schema.def.left, schema.def.right].flatMap((part) => childrenOf(unwrap(part), value));
  if (schema instanceof z.ZodArray && Array.isArray(value))
    return value.map((part, i) => [String(i), schema.element, part]);
  if (schema instanceof z.ZodObject) {
    const shape = schema.shape as Record<string, unknown>;
    return Object.entries(value).map(([name, part]) => [
      name,
      Object.hasOwn(shape, name) ? shape[name] : undefined,
      part,
    ]);
  }
  if (schema instanceof z.ZodRecord && !(schema.valueType instanceof z.ZodUnknown))
    return Object.entries(value).map(([name, part]) => [name, schema.valueType, part]);
  return [];
}

/** Unwraps optional, nullable and default schemas. */
function unwrap(schema: unknown): unknown {
  let at = schema;
  while (
    at instanceof z.ZodOptional ||
    at instanceof z.ZodNullable ||
    at instanceof z.ZodDefault ||
    at instanceof z.ZodPrefault
  )
    at = at.unwrap();
  return at;
}
