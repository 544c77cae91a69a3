// The caller's schema: real JSON Schema (2020-12) or SearchClaw's flat map of names to types,
// checked for size and sense before anything is read. Patterns run on RE2, since a schema comes
// from outside.
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import formatsPlugin, { type FormatsPlugin } from 'ajv-formats';
import { byName } from '../../../runtime/by-name.ts';
import { AppError } from '../../../errors.ts';
import { isRecord } from '../../../runtime/json.ts';
import { ajvCode } from '../../../runtime/schema-code.ts';

export type JsonSchema = Record<string, unknown>;

export interface ReadSchema {
  schema: JsonSchema;
  /** True when a flat map was translated. */
  flat: boolean;
  /** Messages, empty when the value fits. */
  check(value: unknown): SchemaProblem[];
}

export interface SchemaProblem {
  /** JSON pointer into the value; empty for the whole. */
  path: string;
  message: string;
}

const schemaCharsMax = 65_536;
const schemaDepthMax = 24;
const schemaNodesMax = 4000;
const problemsMax = 20;

const addFormats = formatsPlugin as unknown as FormatsPlugin;

export function readSchema(given: unknown): ReadSchema {
  checkSize(given);
  if (!isRecord(given)) throw notASchema(`it is ${describe(given)}, not an object`);
  const flat = isFlatMap(given);
  const schema = flat ? fromFlatMap(given) : given;
  const validate = compile(schema);
  return {
    schema,
    flat,
    check: (value) => (holds(validate, value) ? [] : problems(validate.errors ?? [])),
  };
}

function holds(validate: ValidateFunction, value: unknown): boolean {
  try {
    return validate(value);
  } catch (error) {
    throw new AppError('invalidInput', `The schema cannot be used: ${(error as Error).message}.`, {
      hint: costHint,
      cause: error,
    });
  }
}

/** Of a schema that takes too much time, memory or stack. */
export const costHint =
  'References ($ref) that lead to several others multiply: say it with fewer of them.';

export interface SchemaCheck {
  valid: boolean;
  problems: SchemaProblem[];
}

/** submit_extraction: the agent's JSON against the schema it was given. */
export function checkAgainst(schema: unknown, value: unknown): SchemaCheck {
  const found = readSchema(schema).check(withoutNulls(value));
  return { valid: found.length === 0, problems: found };
}

let shared: Ajv2020 | undefined;

/** Made once: compiling the meta schema costs more than most schemas. */
function checker(): Ajv2020 {
  if (shared) return shared;
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    validateFormats: true,
    logger: false,
    addUsedSchema: false,
    // A part that many refer to is compiled once: put in place each time, a small schema would make endless code.
    inlineRefs: false,
    code: ajvCode,
  });
  addFormats(ajv, { mode: 'fast' });
  shared = ajv;
  return ajv;
}

function compile(schema: JsonSchema): ValidateFunction {
  const ajv = checker();
  try {
    return ajv.compile(schema);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw notASchema(reason.replace(/^schema is invalid: data/, 'at '), error);
  } finally {
    ajv.removeSchema(schema);
  }
}

function notASchema(reason: string, cause?: unknown): AppError {
  return new AppError('invalidInput', `The schema is not a JSON Schema: ${reason}.`, {
    hint:
      'Give JSON Schema such as {"type":"object","properties":{"price":{"type":"number"}}}, ' +
      'or a flat map such as {"title":"string","price":"number"}.',
    ...(cause === undefined ? {} : { cause }),
  });
}

function checkSize(given: unknown): void {
  const stack: { value: unknown; depth: number }[] = [{ value: given, depth: 1 }];
  for (let seen = 0; stack.length > 0; seen++) {
    const { value, depth } = stack.pop()!;
    if (depth > schemaDepthMax) throw tooBig(`deeper than ${schemaDepthMax} levels`);
    if (seen > schemaNodesMax) throw tooBig(`more than ${schemaNodesMax} parts`);
    if (typeof value !== 'object' || value === null) continue;
    for (const child of Object.values(value)) stack.push({ value: child, depth: depth + 1 });
  }
  if (JSON.stringify(given ?? null).length > schemaCharsMax) {
    throw tooBig(`longer than ${schemaCharsMax} characters`);
  }
}

function tooBig(how: string): AppError {
  return new AppError('invalidInput', `The schema is ${how}.`, {
    hint: 'Ask for fewer fields at once.',
  });
}

function problems(errors: readonly ErrorObject[]): SchemaProblem[] {
  return errors.slice(0, problemsMax).map(({ instancePath, message, params }) => {
    const extra = 'allowedValues' in params ? `: ${JSON.stringify(params.allowedValues)}` : '';
    return { path: instancePath, message: `${message ?? 'does not fit'}${extra}` };
  });
}

const schemaWords = [
  '$schema',
  '$ref',
  '$defs',
  'properties',
  'items',
  'prefixItems',
  'anyOf',
  'oneOf',
  'allOf',
  'enum',
  'const',
  'patternProperties',
  'additionalProperties',
];
const typeNames = new Set(['string', 'number', 'integer', 'boolean', 'array', 'object', 'null']);

/**
 * A flat map has only names and types; as soon as a word of JSON Schema has its own shape it is
 * one.
 */
function isFlatMap(value: Record<string, unknown>): boolean {
  if (Object.keys(value).length === 0) return false;
  if (schemaWords.some((word) => isSchemaWord(word, value[word]))) return false;
  const { type } = value;
  if (typeof type === 'string' && typeNames.has(type) && Object.keys(value).every(isAnnotation))
    return false;
  if (Array.isArray(type)) return false;
  return Object.values(value).every(isFlatValue);
}

function isSchemaWord(word: string, value: unknown): boolean {
  if (value === undefined) return false;
  if (word === '$schema' || word === '$ref') return true;
  if (word === 'properties' || word === '$defs') return isRecord(value);
  if (word === 'items') return isRecord(value);
  return typeof value === 'object' || word === 'const';
}

const annotations = new Set(
  (
    'type title description format minimum maximum minLength maxLength pattern default examples ' +
    '$id $comment required'
  ).split(' '),
);

function isAnnotation(key: string): boolean {
  return annotations.has(key);
}

function isFlatValue(value: unknown): boolean {
  if (typeof value === 'string') return true;
  if (Array.isArray(value)) return value.length <= 1 && value.every(isFlatValue);
  return isRecord(value) && Object.values(value).every(isFlatValue);
}

function fromFlatMap(map: Record<string, unknown>): JsonSchema {
  return {
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(map).map(([name, value]) => [name, fromFlat(value)]),
    ),
  };
}

const flatTypes: Record<string, JsonSchema> = byName({
  string: { type: 'string' },
  str: { type: 'string' },
  text: { type: 'string' },
  number: { type: 'number' },
  float: { type: 'number' },
  int: { type: 'integer' },
  integer: { type: 'integer' },
  bool: { type: 'boolean' },
  boolean: { type: 'boolean' },
  url: { type: 'string', format: 'uri' },
  date: { type: 'string' },
  array: { type: 'array' },
  list: { type: 'array' },
  object: { type: 'object' },
});

function fromFlat(value: unknown): JsonSchema {
  if (Array.isArray(value))
    return { type: 'array', items: value.length > 0 ? fromFlat(value[0]) : {} };
  if (isRecord(value)) return fromFlatMap(value);
  const name = String(value).trim().toLowerCase();
  const list = /^(?:array|list)\s*[<[(]\s*(\w+)\s*[>\])]$|^(\w+)\[\]$/.exec(name);
  const inner = list?.[1] ?? list?.[2];
  if (inner !== undefined) return { type: 'array', items: flatTypes[inner] ?? {} };
  // Any other word is a description of a text.
  return flatTypes[name] ?? { type: 'string', description: String(value) };
}

function describe(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}

/**
 * Null stands for "not stated": for the check such a field is absent, so that `required` says so.
 */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== null)
      .map(([key, entry]) => [key, withoutNulls(entry)]),
  );
}
