// From a zod schema to the small JSON schema a model reads: every byte of it is sent with each conversation, so what
// says nothing (`$schema`, `additionalProperties: false`, safe-integer bounds, patterns beside formats) is left out.
import { z } from 'zod';
import type { JsonObject } from './source.ts';

export function inputSchemaOf(schema: z.ZodType): JsonObject {
  return jsonSchemaOf(schema, 'input');
}

export function outputSchemaOf(schema: z.ZodType): JsonObject {
  return jsonSchemaOf(schema, 'output');
}

function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const json = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonObject;
  return objectRoot(compact(json) as JsonObject);
}

/** Protocol revisions before 2026 accept only `type: object` at the root; a union of objects is one too. */
function objectRoot(schema: JsonObject): JsonObject {
  if (schema.type) return schema;
  const branches = (schema.anyOf ?? schema.oneOf) as JsonObject[] | undefined;
  if (branches && !branches.every((branch) => branch.type === 'object')) return schema;
  return { type: 'object', ...schema };
}

const noise = new Set(['$schema', 'title', 'propertyNames']);
const safeIntegers = new Set([Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]);

function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (value === null || typeof value !== 'object') return value;
  const schema = value as JsonObject;
  const small: JsonObject = {};
  for (const [key, part] of Object.entries(schema)) {
    if (isNoise(schema, key, part)) continue;
    small[key] =
      key === 'properties' || key === '$defs'
        ? compactEach(part as JsonObject)
        : compactPart(key, part);
  }
  return nullable(small);
}

function compactEach(schemas: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schemas).map(([name, part]) => [name, compact(part)]));
}

/** Values are data, not schemas: they stay as they are. */
function compactPart(key: string, part: unknown): unknown {
  const isData = key === 'default' || key === 'const' || key === 'enum' || key === 'examples';
  return isData ? part : compact(part);
}

function isNoise(schema: JsonObject, key: string, part: unknown): boolean {
  if (noise.has(key) && typeof part !== 'object') return true;
  if (key === 'propertyNames') return true;
  if (key === 'additionalProperties') return part === false || isEmpty(part);
  if (key === 'pattern') return typeof schema.format === 'string';
  if (key === 'maximum' || key === 'minimum') return safeIntegers.has(part as number);
  return key === 'required' && Array.isArray(part) && part.length === 0;
}

const isEmpty = (part: unknown): boolean =>
  typeof part === 'object' && part !== null && Object.keys(part).length === 0;

/** `anyOf: [{type: x, …}, {type: null}]` says `type: [x, null]` in a third of the bytes. */
function nullable(schema: JsonObject): JsonObject {
  const branches = schema.anyOf as JsonObject[] | undefined;
  if (branches?.length !== 2) return schema;
  const other = branches.find((branch) => branch.type !== 'null');
  const isNullable = branches.some((branch) => branch.type === 'null');
  if (!isNullable || typeof other?.type !== 'string' || 'enum' in other || 'const' in other)
    return schema;
  const { anyOf: _, ...rest } = schema;
  return { ...rest, ...other, type: [other.type, 'null'] };
}
