// Converts a request into operation input. Query and path text becomes the type that the field schema expects; text that
// does not convert stays text, so that the schema error names the field.
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { setOwn } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Operation } from '../../operation.ts';
import { parseJson, utf8Text } from '../../runtime/json.ts';

type Json = Record<string, unknown>;

/** The JSON types that a field accepts, and for arrays the types of its items. */
interface FieldShape {
  types: ReadonlySet<string>;
  items?: FieldShape;
}

export type InputShape = ReadonlyMap<string, FieldShape>;

const shapes = new WeakMap<Operation, InputShape>();

/** Computed at the first call of an operation: a server has many operations and most of them are never called. */
export function inputShape(operation: Operation): InputShape {
  let shape = shapes.get(operation);
  if (!shape) shapes.set(operation, (shape = computeShape(operation)));
  return shape;
}

function computeShape(operation: Operation): InputShape {
  const schema = inputSchema(operation);
  const fields = Object.entries(propertiesOf(schema));
  return new Map(fields.map(([name, field]) => [name, fieldShape(field, schema)]));
}

/** The fields of an object schema. For a union or intersection: the fields of all its parts. */
export function propertiesOf(schema: Json): Record<string, Json> {
  const deps = ['anyOf', 'oneOf', 'allOf'].flatMap((name) => (schema[name] ?? []) as Json[]);
  return Object.assign({}, ...deps.map(propertiesOf), schema.properties) as Record<string, Json>;
}

export function inputSchema(operation: Operation): Json {
  return z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' });
}

export function outputSchema(operation: Operation): Json {
  return z.toJSONSchema(operation.output, { io: 'output', unrepresentable: 'any' });
}

/** For an array, `a=1&a=2` and `a=1,2` mean the same. */
export function queryInput(query: URLSearchParams, shape: InputShape): Json {
  const input: Json = {};
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    const field = shape.get(name);
    setOwn(input, name, field ? fieldValue(values, field) : single(values));
  }
  return input;
}

export function pathInput(params: Record<string, string>, shape: InputShape): Json {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const field = shape.get(name);
      return [name, field ? fieldValue([value], field) : value];
    }),
  );
}

export function jsonBody(bytes: Buffer): unknown {
  const text = utf8Text(bytes);
  if (text.trim() === '') return undefined;
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError(
      'invalidInput',
      `The request body is not valid JSON: ${(error as Error).message}.`,
      {
        hint: 'Send one JSON object with `content-type: application/json`.',
      },
    );
  }
}

/** Only JSON is supported; a missing content type means JSON. */
export function checkJsonType(request: IncomingMessage): void {
  const type = request.headers['content-type'];
  if (type === undefined) return;
  const media = type.split(';', 1)[0]!.trim().toLowerCase();
  if (media === 'application/json' || media.endsWith('+json')) return;
  throw new AppError(
    'unsupportedMediaType',
    `Content type ${media} is not supported. Only JSON is.`,
    {
      hint: 'Send `content-type: application/json`.',
    },
  );
}

function fieldValue(values: string[], field: FieldShape): unknown {
  if (field.items && !(values.length === 1 && field.types.has('string'))) {
    const items = field.items;
    const list = values.length === 1 ? listItems(values[0]!) : values;
    return list.map((item) => textValue(item, items));
  }
  return values.length === 1 ? textValue(values[0]!, field) : values;
}

function listItems(text: string): string[] {
  return text === '' ? [] : text.split(',').map((item) => item.trim());
}

function textValue(text: string, { types }: FieldShape): unknown {
  if (types.has('boolean') && !types.has('string')) {
    if (text === 'true' || text === '1' || text === '') return true;
    if (text === 'false' || text === '0') return false;
  }
  if ((types.has('number') || types.has('integer')) && !types.has('string')) {
    if (text.trim() !== '' && Number.isFinite(Number(text))) return Number(text);
  }
  if (types.has('null') && !types.has('string') && text === 'null') return null;
  if (types.has('object') && text.startsWith('{')) {
    try {
      return parseJson(text);
    } catch (error) {
      if (error instanceof AppError) throw error;
      return text;
    }
  }
  return text;
}

function single(values: string[]): string | string[] {
  return values.length === 1 ? values[0]! : values;
}

function fieldShape(field: Json, root: Json, depth = 0): FieldShape {
  const types = new Set<string>();
  let items: FieldShape | undefined;
  if (depth > 8) return { types };
  const target = typeof field.$ref === 'string' ? reference(field.$ref, root) : field;
  for (const type of [target.type ?? []].flat()) types.add(String(type));
  for (const value of [target.enum ?? [], 'const' in target ? [target.const] : []].flat())
    types.add(value === null ? 'null' : typeof value);
  for (const name of ['anyOf', 'oneOf', 'allOf']) {
    for (const part of (target[name] ?? []) as Json[]) {
      const shape = fieldShape(part, root, depth + 1);
      for (const type of shape.types) types.add(type);
      items ??= shape.items;
    }
  }
  if (types.has('array') && !items)
    items = fieldShape((target.items ?? {}) as Json, root, depth + 1);
  return items ? { types, items } : { types };
}

function reference(ref: string, root: Json): Json {
  if (ref === '#') return root;
  const path = ref.replace(/^#\//, '').split('/');
  let at: unknown = root;
  for (const part of path) at = (at as Json | undefined)?.[part];
  return (at ?? {}) as Json;
}
