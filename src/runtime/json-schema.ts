// Compiles JSON Schemas from outside, for every draft since 04. `$schema` names the draft; otherwise the newest draft that
// accepts the schema applies.
import type { Ajv, Options, ValidateFunction } from 'ajv';
import { isRecord } from './json.ts';
import { ajvCode } from './ajv-code.ts';
import { ajv, ajv2019, ajv2020, ajvFormats } from './packages.ts';

export type JsonSchema = Record<string, unknown>;

type Draft = '2020-12' | '2019-09' | '07' | '04';

const options: Options = {
  strict: false,
  allErrors: true,
  validateFormats: true,
  logger: false,
  // Compile shared parts once. With inlining, a small schema could generate an unlimited amount of code.
  inlineRefs: false,
  code: ajvCode,
};

/** `full` also checks values (calendar dates); `fast` checks only the syntax. */
type FormatChecks = 'fast' | 'full';

const sharedInstances = new Map<string, Ajv>();

/** Cached, because compiling a meta schema costs more than most schemas. */
function sharedAjv(draft: Draft, formats: FormatChecks): Ajv {
  const name = `${draft} ${formats}`;
  const known = sharedInstances.get(name);
  if (known) return known;
  const created = createAjv(draft, formats);
  sharedInstances.set(name, created);
  return created;
}

function createAjv(draft: Draft, formats: FormatChecks): Ajv {
  const created = newAjv(draft);
  ajvFormats()(created, { mode: formats });
  return created;
}

function newAjv(draft: Draft): Ajv {
  if (draft === '2020-12') return new (ajv2020().Ajv2020)(options);
  return draft === '2019-09' ? new (ajv2019().Ajv2019)(options) : new (ajv().Ajv)(options);
}

/** Throws Ajv's error if the schema is invalid. */
export function compileJsonSchema(schema: JsonSchema, formats: FormatChecks): ValidateFunction {
  const { $schema, ...rest } = schema;
  const draft = draftOf($schema);
  if (draft !== undefined) return compileAs(draft, rest, formats);
  try {
    return compileAs('2020-12', rest, formats);
  } catch (error) {
    // Arrays under `items` are older than 2020-12, and a boolean `exclusiveMinimum` is older than draft 06.
    for (const older of ['07', '04'] as const) {
      try {
        return compileAs(older, rest, formats);
      } catch {
        continue;
      }
    }
    throw error;
  }
}

/** Undefined if `$schema` is missing or does not identify a draft. */
function draftOf($schema: unknown): Draft | undefined {
  const name = typeof $schema === 'string' ? $schema : '';
  const found = /json-schema\.org\/draft(?:-0?(\d)|\/(2019-09|2020-12))\b/i.exec(name);
  if (found?.[2] !== undefined) return found[2] as Draft;
  if (found?.[1] === undefined) return undefined;
  // Draft 07 only adds keywords to draft 06.
  return Number(found[1]) >= 6 ? '07' : '04';
}

function compileAs(draft: Draft, schema: JsonSchema, formats: FormatChecks): ValidateFunction {
  const converted = draft === '04' ? (toDraft06(schema) as JsonSchema) : schema;
  // Ajv registers every `$id`. In a shared instance, a schema could replace a meta schema or another caller's schema.
  if (hasId(converted)) return createAjv(draft, formats).compile(converted);
  const shared = sharedAjv(draft, formats);
  try {
    return shared.compile(converted);
  } finally {
    shared.removeSchema(converted);
    // The entry that `$ref: "#"` resolves to.
    shared.removeSchema('');
  }
}

const hasId = (schema: JsonSchema): boolean => JSON.stringify(schema).includes('"$id"');

const schemaMapKeywords = new Set(
  'properties patternProperties definitions dependencies'.split(' '),
);
const schemaKeywords = new Set(
  'items additionalItems additionalProperties not allOf anyOf oneOf'.split(' '),
);
const bounds = [
  ['exclusiveMinimum', 'minimum'],
  ['exclusiveMaximum', 'maximum'],
] as const;

/** Converts draft 04 to draft 06: `id` becomes `$id`, and an exclusive bound becomes a number. */
function toDraft06(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toDraft06);
  if (!isRecord(schema)) return schema;
  const dropped: string[] = bounds.flatMap(([exclusive, limit]) =>
    typeof schema[exclusive] === 'boolean'
      ? [exclusive, ...(schema[exclusive] ? [limit] : [])]
      : [],
  );
  const kept = Object.entries(schema)
    .filter(([name]) => !dropped.includes(name))
    .map(([name, value]) => [name === 'id' && typeof value === 'string' ? '$id' : name, convertKeyword(name, value)]); // prettier-ignore
  const exclusive = bounds
    .filter(([name, limit]) => schema[name] === true && schema[limit] !== undefined)
    .map(([name, limit]) => [name, schema[limit]]);
  return Object.fromEntries([...kept, ...exclusive]) as JsonSchema;
}

function convertKeyword(name: string, value: unknown): unknown {
  if (schemaKeywords.has(name)) return toDraft06(value);
  if (!schemaMapKeywords.has(name) || !isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, toDraft06(part)]));
}
