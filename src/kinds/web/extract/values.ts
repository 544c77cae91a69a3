// Converts a found value to the type in the schema, or returns undefined. Nothing is guessed: "1.299,00 €" is
// a number, "from about ten" is not.
import { ownValue } from '../../../runtime/by-name.ts';
import { isRecord } from '../../../runtime/json.ts';
import { parseDate, parseDateTime } from './dates.ts';
import { parseNumber } from './numbers.ts';
import type { JsonSchema } from './schema.ts';

const maxTextChars = 50_000;

/** Returns the effective schema, resolving unions, allOf and local references. */
export function resolveSchema(schema: unknown, root: JsonSchema, depth = 0): JsonSchema {
  if (!isRecord(schema) || depth > 10) return {};
  if (typeof schema.$ref === 'string')
    return resolveSchema(resolvePointer(root, schema.$ref), root, depth + 1);
  let target: JsonSchema = schema;
  for (const word of ['allOf', 'anyOf', 'oneOf']) {
    const options = schema[word];
    if (!Array.isArray(options)) continue;
    const wanted = options.filter((entry) => isRecord(entry) && entry.type !== 'null');
    // Merges all of allOf; of alternatives, uses the first.
    for (const option of word === 'allOf' ? wanted : wanted.slice(0, 1))
      target = mergeSchemas(target, resolveSchema(option, root, depth + 1));
  }
  return target;
}

function mergeSchemas(one: JsonSchema, other: JsonSchema): JsonSchema {
  const properties = [one, other].map((schema) => schema.properties).filter(isRecord);
  return {
    ...one,
    ...other,
    ...(properties.length > 0 ? { properties: Object.assign({}, ...properties) as object } : {}),
  };
}

function resolvePointer(root: JsonSchema, ref: string): unknown {
  if (!ref.startsWith('#')) return undefined;
  let at: unknown = root;
  for (const part of ref.slice(1).split('/').filter(Boolean)) {
    const key = decodeURIComponent(part).replace(/~1/g, '/').replace(/~0/g, '~');
    at = isRecord(at) ? ownValue(at, key) : undefined;
  }
  return at;
}

export function typeOf(schema: JsonSchema): string {
  const { type } = schema;
  const list = Array.isArray(type) ? type : [type];
  const first = list.find((name) => typeof name === 'string' && name !== 'null');
  if (typeof first === 'string') return first;
  if (isRecord(schema.properties)) return 'object';
  if (schema.items !== undefined) return 'array';
  return 'any';
}

export function fit(value: unknown, schema: JsonSchema, base: string): unknown {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(schema.enum)) return fitEnum(value, schema.enum);
  if (schema.const !== undefined) return fitEnum(value, [schema.const]);
  switch (typeOf(schema)) {
    case 'string':
      return fitText(value, schema, base);
    case 'number':
      return fitNumber(value);
    case 'integer': {
      const number = fitNumber(value);
      return number !== undefined && Number.isInteger(number) ? number : undefined;
    }
    case 'boolean':
      return fitBoolean(value);
    case 'any':
      return value;
    default:
      return undefined;
  }
}

function fitEnum(value: unknown, allowed: readonly unknown[]): unknown {
  if (allowed.includes(value)) return value;
  const text = asText(value);
  if (text === undefined) return undefined;
  const plain = (entry: unknown) =>
    String(entry)
      .replace(/^https?:\/\/schema\.org\//, '')
      .toLowerCase()
      .replace(/[\s_-]/g, '');
  return allowed.find((entry) => plain(entry) === plain(text));
}

function fitText(value: unknown, schema: JsonSchema, base: string): string | undefined {
  const text = asText(value)?.trim();
  if (text === undefined || text === '') return undefined;
  switch (schema.format) {
    case 'uri':
    case 'url':
      return /\s/.test(text) ? undefined : URL.parse(text, base)?.href;
    case 'date':
      return parseDate(text);
    case 'date-time':
      return parseDateTime(text);
    case 'email':
      return /^(?:mailto:)?(\S+@\S+)$/i.exec(text)?.[1];
  }
  return text.slice(0, maxTextChars).replace(/^https?:\/\/schema\.org\/(?=[A-Z][A-Za-z]+$)/, '');
}

/** Objects are represented by their name, text or address. */
function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) {
    const parts = value.map(asText).filter((part) => part !== undefined);
    return parts.length === 0 ? undefined : parts.join(', ');
  }
  if (!isRecord(value)) return undefined;
  for (const key of ['@value', 'name', 'text', 'url', 'contentUrl', 'value']) {
    if (value[key] !== undefined) return asText(value[key]);
  }
  const address = [
    'streetAddress',
    'postalCode',
    'addressLocality',
    'addressRegion',
    'addressCountry',
  ]
    .map((key) => asText(value[key]))
    .filter(Boolean);
  return address.length > 0 ? address.join(', ') : undefined;
}

function fitNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const text = asText(value);
  return text === undefined ? undefined : parseNumber(text);
}

function fitBoolean(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value;
  const text = asText(value)
    ?.replace(/^https?:\/\/schema\.org\//, '')
    .trim()
    .toLowerCase();
  if (text === undefined) return undefined;
  if (/^(?:true|yes|instock|in stock|onlineonly|limitedavailability|instoreonly)$/.test(text))
    return true;
  if (/^(?:false|no|outofstock|out of stock|soldout|sold out|discontinued)$/.test(text))
    return false;
  return undefined;
}
