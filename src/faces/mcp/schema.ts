// From a zod schema to the small JSON schema a model reads: every byte of it is sent with each conversation. What says nothing
// is left out (`$schema`, safe-integer bounds), and so is what the server checks anyway and explains when it is wrong
// (lengths, patterns, `additionalProperties: false`, deep parts). The OpenAPI document has the whole.
import type { z } from 'zod';
import { toJSONSchema } from 'zod';
import type { JsonObject } from './source.ts';

/** What our own operations show: the input to this depth, of the output the fields and their types. */
export function inputSchemaOf(schema: z.ZodType, rare: readonly string[] = []): JsonObject {
  const { properties = {}, ...rest } = shallow(jsonSchemaOf(schema, 'input'), inputDepthMax);
  if (rare.length === 0) return { ...rest, properties };
  const names = new Set(rare.map((one) => one.split(' ')[0]));
  const shown = Object.entries(properties as JsonObject).filter(([name]) => !names.has(name));
  const description = `Also accepted: ${rare.join(', ')}.`;
  return { ...rest, description, properties: Object.fromEntries(shown) };
}

export function outputSchemaOf(schema: z.ZodType): JsonObject {
  return bare(jsonSchemaOf(schema, 'output'), outputDepthMax);
}

/** For the tools of dialects, which answer for another system: whole. */
export function wholeSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  return jsonSchemaOf(schema, io);
}

/** Levels of properties that are described in full. */
const inputDepthMax = 2;
const outputDepthMax = 1;

function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const json = toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonObject;
  return objectRoot(compact(json) as JsonObject);
}

/** Protocol revisions before 2026 accept only `type: object` at the root; a union of objects is one too. */
function objectRoot(schema: JsonObject): JsonObject {
  if (schema.type) return schema;
  const branches = (schema.anyOf ?? schema.oneOf) as JsonObject[] | undefined;
  if (branches && !branches.every((branch) => branch.type === 'object')) return schema;
  return { type: 'object', ...schema };
}

const safeIntegers = new Set([Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]);
const data = new Set(['default', 'const', 'enum', 'examples', 'required']);

function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (value === null || typeof value !== 'object') return value;
  const schema = value as JsonObject;
  const small: JsonObject = {};
  for (const [key, part] of Object.entries(schema)) {
    if (isNoise(schema, key, part)) continue;
    if (key === 'properties' || key === '$defs')
      small[key] = mapValues(part as JsonObject, compact);
    else small[key] = data.has(key) ? part : compact(part);
  }
  return nullable(small);
}

function isNoise(schema: JsonObject, key: string, part: unknown): boolean {
  switch (key) {
    case '$schema':
    case 'propertyNames':
      return true;
    case 'additionalProperties':
      return part === false || isEmpty(part);
    case 'pattern':
      return typeof schema.format === 'string';
    case 'maximum':
    case 'minimum':
      return safeIntegers.has(part as number);
    case 'type':
      return 'const' in schema;
    case 'required':
      return Array.isArray(part) && part.length === 0;
    default:
      return false;
  }
}

/** `anyOf: [{type: x, …}, {type: null}]` says `type: [x, null]` in a third of the bytes. */
function nullable(schema: JsonObject): JsonObject {
  const branches = schema.anyOf as JsonObject[] | undefined;
  if (branches?.length !== 2) return schema;
  const other = branches.find((branch) => branch.type !== 'null');
  const isNullable = branches.some((branch) => branch.type === 'null');
  if (!isNullable || typeof other?.type !== 'string' || 'enum' in other) return schema;
  const { anyOf: _, ...rest } = schema;
  return { ...rest, ...other, type: [other.type, 'null'] };
}

const checks = new Set(['pattern', 'minLength', 'maxLength', 'maxItems', 'minItems']);

/** Without what only the server needs (of the deepest also their bounds), and without properties below a depth. */
function shallow(whole: JsonObject, depth: number): JsonObject {
  const schema = merged(whole);
  const small: JsonObject = {};
  for (const [key, part] of Object.entries(schema)) {
    if (checks.has(key) || isObvious(key, part) || (key === 'maximum' && depth === 0)) continue;
    const inner = (one: unknown) => shallow(one as JsonObject, depth);
    if (key === 'properties') {
      if (depth > 0)
        small[key] = mapValues(part as JsonObject, (one) => shallow(one as JsonObject, depth - 1));
    } else if (key === 'required') {
      if (depth > 0) small[key] = part;
    } else if (key === 'oneOf' || key === 'anyOf' || key === 'allOf') {
      if (depth > 0) small[key] = (part as JsonObject[]).map(inner);
      else small.type ??= 'object';
    } else if (key === 'items' || key === 'additionalProperties') small[key] = inner(part);
    else small[key] = part;
  }
  return small;
}

function isObvious(key: string, part: unknown): boolean {
  if (key === 'minimum') return (part as number) >= 0;
  return key === 'default' && (part === false || isEmpty(part));
}

/** A union told apart by one constant field is told in words: which fields belong to which value. */
function merged(schema: JsonObject): JsonObject {
  const branches = (schema.oneOf ?? []) as { properties?: JsonObject }[];
  if (branches.length < 3 || !branches.every((branch) => branch.properties)) return schema;
  const isTag = (name: string) =>
    branches.every(({ properties }) => 'const' in ((properties?.[name] ?? {}) as JsonObject));
  const tag = Object.keys(branches[0]!.properties!).find(isTag);
  if (!tag) return schema;
  const values = branches.map(({ properties }) => (properties![tag] as JsonObject).const);
  const fields = branches.map(({ properties }, i) => {
    const names = Object.keys(properties!).filter((name) => name !== tag);
    return names.length === 0 ? String(values[i]) : `${String(values[i])} (${names.join(', ')})`;
  });
  const { oneOf: _, description = '', ...rest } = schema;
  return {
    ...rest,
    description: `${String(description)}. Fields by ${tag}: ${fields.join('; ')}`,
    type: 'object',
    properties: { [tag]: { enum: values } },
    required: [tag],
  };
}

/** Of an answer what is always there, with its type; more may come. */
function bare(schema: JsonObject, depth: number): JsonObject {
  const { type, properties, items, required = [] } = schema;
  const small: JsonObject = type === undefined ? {} : { type };
  for (const key of ['anyOf', 'oneOf'] as const) {
    const branches = schema[key] as JsonObject[] | undefined;
    if (branches && depth > 0) small[key] = branches.map((branch) => bare(branch, depth));
  }
  if (items && depth >= 0) small.items = bare(items as JsonObject, depth - 1);
  if (properties && depth > 0) {
    const always = Object.entries(properties as JsonObject).filter(([name]) =>
      (required as string[]).includes(name),
    );
    const shown = always.length > 0 ? always : Object.entries(properties as JsonObject);
    small.properties = Object.fromEntries(
      shown.map(([name, part]) => [name, bare(part as JsonObject, depth - 1)]),
    );
  }
  return small;
}

function mapValues(object: JsonObject, change: (part: unknown) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, part]) => [key, change(part)]));
}

const isEmpty = (part: unknown): boolean =>
  typeof part === 'object' && part !== null && Object.keys(part).length === 0;
