// Amounts on the command line: typed in units like `2.50`, sent in the micro-units that operations take.
import { AppError } from '../../errors.ts';
import { microOfUnits } from '../../runtime/decimal.ts';
import { isRecord } from '../../runtime/json.ts';
import type { Schema } from './schema.ts';

type Units = Readonly<Record<string, string>>;

/** The input as the operation takes it. `typed` says how a field is written, for errors. */
export function withMicroUnits(
  input: Record<string, unknown>,
  units: Units,
  typed: (field: string) => string,
): Record<string, unknown> {
  const sent = { ...input };
  for (const path of Object.keys(units)) {
    const [field, below] = path.split('.') as [string, string?];
    const value = sent[field];
    if (value === undefined) continue;
    if (below === undefined) sent[field] = micro(value, typed(field));
    else if (Array.isArray(value)) {
      sent[field] = value.map((item: unknown) =>
        isRecord(item) && item[below] !== undefined
          ? { ...item, [below]: micro(item[below], `${typed(field)}.${below}`) }
          : item,
      );
    }
  }
  return sent;
}

function micro(value: unknown, what: string): string {
  const amount = microOfUnits(String(value));
  if (amount !== undefined && amount > 0) return String(amount);
  throw new AppError('invalidInput', `${what} is not an amount: ${String(value)}.`, {
    hint: 'Write 2.50 for two and a half units, with at most 6 digits after the point.',
  });
}

/** The schema with the words for a person where a field is typed in units. */
export function inUnits(schema: Schema, units: Units = {}): Schema {
  const { properties = {} } = schema;
  const spoken = Object.entries(properties).map(([field, property]) => {
    const description = units[field];
    return [field, description === undefined ? property : { ...property, description }];
  });
  return { ...schema, properties: Object.fromEntries(spoken) as Record<string, Schema> };
}
