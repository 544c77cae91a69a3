// Models send numbers as text, or one value where a list is expected. A value that has only one meaning is converted, because
// a rejection costs the model another call. Validation reports everything else.
import { z } from 'zod';
import { isRecord, parseJson } from '../../runtime/json.ts';

export function lenientInput(input: z.ZodType, args: unknown): unknown {
  if (!(input instanceof z.ZodObject) || !isRecord(args)) return args;
  const shape = input.shape as Record<string, z.ZodType>;
  const converted = Object.entries(args).map(([name, value]) => {
    const field = Object.hasOwn(shape, name) ? shape[name] : undefined;
    return [name, field ? convert(plainType(field), value) : value];
  });
  return Object.fromEntries(converted);
}

function convert(type: z.ZodType, value: unknown): unknown {
  if (type instanceof z.ZodArray) return toList(value);
  if (type instanceof z.ZodRecord) return toRecord(type, value);
  if (typeof value !== 'string') return value;
  if (type instanceof z.ZodNumber && /^-?\d+(?:\.\d+)?$/.test(value.trim())) return Number(value);
  if (type instanceof z.ZodBoolean && /^(?:true|false)$/i.test(value.trim()))
    return value.trim().toLowerCase() === 'true';
  return type instanceof z.ZodObject ? (jsonIn(value, isRecord) ?? value) : value;
}

/** `"a"` and `"[\"a\"]"` both mean the list of one. */
function toList(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return jsonIn(value, Array.isArray) ?? [value];
}

/** Environment variables are text: `{PORT: 3000}` means `{PORT: "3000"}`. */
function toRecord(type: z.ZodRecord, value: unknown): unknown {
  const record = typeof value === 'string' ? (jsonIn(value, isRecord) ?? value) : value;
  if (!isRecord(record) || !((type.valueType as z.ZodType) instanceof z.ZodString)) return record;
  const text = ([name, one]: [string, unknown]) => [
    name,
    typeof one === 'number' || typeof one === 'boolean' ? String(one) : one,
  ];
  return Object.fromEntries(Object.entries(record).map(text));
}

function jsonIn<T>(text: string, isWanted: (value: unknown) => value is T): T | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = parseJson(text);
    return isWanted(value) ? value : undefined;
  } catch {
    return undefined; // not JSON: validation reports the text
  }
}

/** The type without `optional`, `default` and similar wrappers. */
function plainType(schema: z.ZodType): z.ZodType {
  const { innerType, in: input } = schema.def as { innerType?: z.ZodType; in?: z.ZodType };
  const inner = innerType ?? input;
  return inner ? plainType(inner) : schema;
}
