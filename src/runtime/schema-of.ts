// Concise JSON Schema for documentation: `schemaOf({ id: 'string', 'error?': 'string' })`. Objects stay open, because
// responses of other systems may contain more fields.

type JsonSchema = Readonly<Record<string, unknown>>;

type Type = 'string' | 'number' | 'integer' | 'boolean' | 'object' | 'array';
/** A type, a type or null, anything, or a schema. */
type Field = Type | `${Type}|null` | 'any' | JsonSchema;

/** An object schema. A name that ends with `?` is optional. */
export function schemaOf(fields: Readonly<Record<string, Field>>): JsonSchema {
  const names = Object.keys(fields);
  const required = names.filter((name) => !name.endsWith('?'));
  const properties = names.map((name) => [name.replace(/\?$/, ''), fieldSchema(fields[name]!)]);
  return {
    type: 'object',
    properties: Object.fromEntries(properties) as JsonSchema,
    ...(required.length > 0 ? { required } : {}),
  };
}

export const listOf = (items: Field): JsonSchema => ({ type: 'array', items: fieldSchema(items) });

function fieldSchema(field: Field): JsonSchema {
  if (typeof field !== 'string') return field;
  if (field === 'any') return {};
  const [type, isNullable] = field.split('|');
  return { type: isNullable ? [type, 'null'] : type };
}
