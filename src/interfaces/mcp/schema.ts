// Converts a zod schema to the small JSON schema that a model reads. Every byte is sent with each conversation, so two
// groups are omitted: keywords without information (`$schema`, safe-integer bounds), and keywords that the server enforces
// and explains anyway (lengths, patterns, `additionalProperties: false`, deep parts). The OpenAPI document is complete.
import type { z } from 'zod';
import { toJSONSchema } from 'zod';
import type { JsonObject } from './source.ts';

/** The input schema of our own operations, limited in depth. Rare fields are listed by name in the description. */
export function toolInputSchema(
  schema: z.ZodType,
  rare: readonly string[] = [],
  unlisted: readonly string[] = [],
): JsonObject {
  const { properties = {}, ...rest } = shallow(jsonSchemaOf(schema, 'input'), maxInputDepth);
  const hidden = new Set([...rare.map((one) => one.split(' ')[0]), ...unlisted]);
  const shown = Object.entries(properties as JsonObject).filter(([name]) => !hidden.has(name));
  const rareNote = rare.length === 0 ? {} : { description: `Also accepted: ${rare.join(', ')}.` };
  return { ...rest, ...rareNote, properties: Object.fromEntries(shown) };
}

/** Only declares the type of the structured content. Its fields depend on the job; tool descriptions explain them. */
export function toolOutputSchema(schema: z.ZodType): JsonObject {
  const { type = 'object' } = jsonSchemaOf(schema, 'output');
  return { type };
}

/** The complete schema, for dialect tools, which follow the contract of another system. */
export function completeSchema(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  return jsonSchemaOf(schema, io);
}

/** Levels of properties that are fully described. */
const maxInputDepth = 2;

function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const json = toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonObject;
  return objectRoot(compact(json) as JsonObject);
}

/** Protocol revisions before 2026 require `type: object` at the root, which is also valid for a union of objects. */
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
    case 'properties':
      // In an output schema this means any fields. An input schema without fields keeps `properties`.
      return schema.additionalProperties !== undefined && isEmpty(part);
    case 'required':
      return Array.isArray(part) && part.length === 0;
    default:
      return false;
  }
}

/** Shortens `anyOf: [{type: x, …}, {type: null}]` to `type: [x, null]`, a third of the bytes. */
function nullable(schema: JsonObject): JsonObject {
  const branches = schema.anyOf as JsonObject[] | undefined;
  if (branches?.length !== 2) return schema;
  const other = branches.find((branch) => branch.type !== 'null');
  const isNullable = branches.some((branch) => branch.type === 'null');
  if (!isNullable || typeof other?.type !== 'string' || 'enum' in other) return schema;
  const { anyOf: _, ...rest } = schema;
  return { ...rest, ...other, type: [other.type, 'null'] };
}

const serverChecks = new Set(['pattern', 'minLength', 'maxLength', 'maxItems', 'minItems']);

/** Omits keywords that only the server needs, properties below the depth limit, and bounds at the deepest level. */
function shallow(complete: JsonObject, depth: number): JsonObject {
  const schema = mergeTaggedUnion(complete);
  const small: JsonObject = {};
  for (const [key, part] of Object.entries(schema)) {
    if (serverChecks.has(key) || isRedundant(key, part) || (key === 'maximum' && depth === 0))
      continue;
    const inner = (one: unknown) => shallow(one as JsonObject, depth);
    if (key === 'properties') {
      if (depth > 0)
        small[key] = mapValues(part as JsonObject, (one) => shallow(one as JsonObject, depth - 1));
    } else if (key === 'required') {
      if (depth > 0) small[key] = part;
    } else if (key === 'anyOf' && isScalarOrObject(part as JsonObject[])) {
      // The description lists the fields in a third of the bytes.
      small.type = [...new Set((part as JsonObject[]).map(({ type }) => type))];
    } else if (key === 'oneOf' || key === 'anyOf' || key === 'allOf') {
      if (depth > 0) small[key] = (part as JsonObject[]).map(inner);
      else small.type ??= 'object';
    } else if (key === 'items' || key === 'additionalProperties') {
      const { description: _same, ...item } = inner(part);
      small[key] = schema.description === undefined ? inner(part) : item;
    } else small[key] = part;
  }
  return small;
}

const isScalarOrObject = (branches: readonly JsonObject[]): boolean =>
  branches.length === 2 &&
  branches.every(({ type }) => typeof type === 'string') &&
  branches.filter(({ type }) => type === 'object').length === 1;

function isRedundant(key: string, part: unknown): boolean {
  if (key === 'minimum') return (part as number) >= 0;
  if (key === 'format') return true;
  return key === 'default' && (part === false || part === 0 || typeof part === 'object');
}

/** Replaces a union with a constant tag field by one object whose description lists the fields of each tag value. */
function mergeTaggedUnion(schema: JsonObject): JsonObject {
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
    properties: { [tag]: { enum: values, description: 'Selects the variant' } },
    required: [tag],
  };
}

function mapValues(object: JsonObject, change: (part: unknown) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, part]) => [key, change(part)]));
}

const isEmpty = (part: unknown): boolean =>
  typeof part === 'object' && part !== null && Object.keys(part).length === 0;
