// NUL characters in text: a database column of text cannot hold one. Where a schema takes any JSON it is stored escaped
// and allowed; where the schema asks for a string it is refused.
import { z } from 'zod';
import { AppError } from '../errors.ts';

interface Checked {
  name: string;
  input: z.ZodType;
  /** Paths of fields whose text may contain one. */
  takesNul?: readonly string[];
}

export function refuseNul({ name, input, takesNul = [] }: Checked, value: unknown): void {
  const path = nulPath(input, value, { path: '', allowed: takesNul });
  if (path === undefined) return;
  const message = 'must not contain a NUL character';
  throw new AppError('invalidInput', `Wrong input for ${name}: ${path}: ${message}`, {
    hint: 'Remove it; arbitrary bytes are passed as base64.',
    data: { issues: [{ path, message, code: 'custom' }] },
  });
}

/** The path of the first declared string with a NUL. */
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
  for (const [name, inner, part] of partsOf(schema, value)) {
    if (name.includes('\0')) return path || 'input';
    const at = { path: path === '' ? name : `${path}.${name}`, allowed };
    const found = nulPath(bare(inner), part, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

function partsOf(schema: unknown, value: object): [name: string, schema: unknown, part: unknown][] {
  if (schema instanceof z.ZodUnion)
    return schema.options.flatMap((option) => partsOf(bare(option), value));
  if (schema instanceof z.ZodIntersection)
    return [schema.def.left, schema.def.right].flatMap((part) => partsOf(bare(part), value));
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

/** Without what may surround it: optional, nullable, defaults. */
function bare(schema: unknown): unknown {
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
