// Reads the caller's schema: JSON Schema of any draft, or SearchClaw's flat map of names to types. Checks its
// size and validity first. Patterns run on RE2, because schemas are untrusted input.
import type { ErrorObject, ValidateFunction } from 'ajv';
import { byName } from '../../../runtime/by-name.ts';
import { AppError } from '../../../errors.ts';
import { isRecord } from '../../../runtime/json.ts';
import { compileJsonSchema, type JsonSchema } from '../../../runtime/json-schema.ts';

export type { JsonSchema };

interface ReadSchema {
  schema: JsonSchema;
  /** True when a flat map was converted. */
  flat: boolean;
  /** Returns the problems; empty when the value is valid. */
  check(value: unknown): SchemaProblem[];
}

export interface SchemaProblem {
  /** JSON pointer into the value; empty for the whole value. */
  path: string;
  message: string;
}

const maxSchemaChars = 65_536;
const maxSchemaDepth = 24;
const maxSchemaNodes = 4000;
const maxProblems = 20;
/** Each round checks the value once. */
const maxNullRounds = 30;

export function readSchema(given: unknown): ReadSchema {
  checkSize(given);
  if (!isRecord(given)) throw invalidSchema(`it is ${describe(given)}, not an object`);
  const flat = isFlatMap(given);
  const schema = flat ? fromFlatMap(given) : given;
  const validate = compile(schema);
  return {
    schema,
    flat,
    check: (value) => (isValid(validate, value) ? [] : problems(validate.errors ?? [])),
  };
}

function isValid(validate: ValidateFunction, value: unknown): boolean {
  try {
    return validate(value);
  } catch (error) {
    throw new AppError('invalidInput', `The schema cannot be used: ${(error as Error).message}.`, {
      hint: costHint,
      cause: error,
    });
  }
}

/** Hint for a schema that needs too much time, memory or stack. */
export const costHint =
  'Use fewer references ($ref): those that point to several others multiply the cost.';

export interface SchemaCheck {
  valid: boolean;
  problems: SchemaProblem[];
}

/** Checks the agent's JSON for submit_extraction against the schema. */
export function checkAgainst(schema: unknown, value: unknown): SchemaCheck {
  const found = problemsOf(value, readSchema(schema).check);
  return { valid: found.length === 0, problems: found };
}

function compile(schema: JsonSchema): ValidateFunction {
  try {
    return compileJsonSchema(schema, 'fast');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw invalidSchema(reason.replace(/^schema is invalid: data/, 'at '), error);
  }
}

function invalidSchema(reason: string, cause?: unknown): AppError {
  return new AppError('invalidInput', `The schema is not a JSON Schema: ${reason}.`, {
    hint:
      'Pass a JSON Schema such as {"type":"object","properties":{"price":{"type":"number"}}}, ' +
      'or a flat map such as {"title":"string","price":"number"}.',
    ...(cause === undefined ? {} : { cause }),
  });
}

function checkSize(given: unknown): void {
  const stack: { value: unknown; depth: number }[] = [{ value: given, depth: 1 }];
  for (let visited = 0; stack.length > 0; visited++) {
    const { value, depth } = stack.pop()!;
    if (depth > maxSchemaDepth)
      throw schemaTooLarge(`is nested deeper than ${maxSchemaDepth} levels`);
    if (visited > maxSchemaNodes) throw schemaTooLarge(`has more than ${maxSchemaNodes} parts`);
    if (typeof value !== 'object' || value === null) continue;
    for (const child of Object.values(value)) stack.push({ value: child, depth: depth + 1 });
  }
  if (JSON.stringify(given ?? null).length > maxSchemaChars) {
    throw schemaTooLarge(`is longer than ${maxSchemaChars} characters`);
  }
}

function schemaTooLarge(how: string): AppError {
  return new AppError('invalidInput', `The schema ${how}.`, {
    hint: 'Request fewer fields.',
  });
}

function problems(errors: readonly ErrorObject[]): SchemaProblem[] {
  return errors.slice(0, maxProblems).map(({ instancePath, message, params }) => {
    const extra = 'allowedValues' in params ? `: ${JSON.stringify(params.allowedValues)}` : '';
    return { path: instancePath, message: `${message ?? 'is not valid'}${extra}` };
  });
}

const schemaWords = [
  '$schema',
  '$ref',
  '$defs',
  'definitions',
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
  'dependentRequired',
  'dependentSchemas',
];
const typeNames = new Set(['string', 'number', 'integer', 'boolean', 'array', 'object', 'null']);

/**
 * A flat map has only names and types. If any JSON Schema keyword has its proper shape, the value is a JSON
 * Schema.
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
  if (word === 'properties' || word === 'items') return isRecord(value);
  if (word === '$defs' || word === 'definitions') return isRecord(value);
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
  // Any other text is the description of a string.
  return flatTypes[name] ?? { type: 'string', description: String(value) };
}

function describe(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}

/**
 * Null means that the page does not state a field. It is valid where the schema allows null, and otherwise the
 * same as no field.
 */
export function problemsOf(value: unknown, check: ReadSchema['check']): SchemaProblem[] {
  const found = check(withoutNulls(value));
  if (found.length === 0) return found;
  const rest = structuredClone(value);
  for (let round = 0; round < maxNullRounds; round++) {
    const problems = check(rest);
    const removed = problems.filter(({ path }) => removeNull(rest, path));
    if (removed.length === 0) return problems;
  }
  return found;
}

/** Removes the field at this JSON pointer if it is null. */
function removeNull(value: unknown, path: string): boolean {
  const names = path.split('/').slice(1).map(fromPointer);
  const last = names.pop();
  const owner = names.reduce<unknown>(ownField, value);
  if (last === undefined || !isRecord(owner) || ownField(owner, last) !== null) return false;
  delete owner[last];
  return true;
}

const ownField = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

const fromPointer = (name: string): string => name.replaceAll('~1', '/').replaceAll('~0', '~');

/** Null means "not stated". Such fields are removed before the check, so that `required` reports them. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== null)
      .map(([key, entry]) => [key, withoutNulls(entry)]),
  );
}
