// Converts amounts: people type units such as `2.50`, operations accept micro-units.
import { AppError } from '../../errors.ts';
import { parseMicroUnits } from '../../runtime/decimal.ts';
import { isRecord } from '../../runtime/json.ts';
import type { Schema } from './schema.ts';

type Units = Readonly<Record<string, string>>;

/** Returns the input with amounts in micro-units. `fieldLabel` names a field in errors. */
export function withMicroUnits(
  input: Record<string, unknown>,
  units: Units,
  fieldLabel: (field: string) => string,
): Record<string, unknown> {
  const converted = { ...input };
  for (const path of Object.keys(units)) {
    const [field, below] = path.split('.') as [string, string?];
    const value = converted[field];
    if (value === undefined) continue;
    if (below === undefined) converted[field] = toMicroUnits(value, fieldLabel(field));
    else if (Array.isArray(value)) {
      converted[field] = value.map((item: unknown) =>
        isRecord(item) && item[below] !== undefined
          ? { ...item, [below]: toMicroUnits(item[below], `${fieldLabel(field)}.${below}`) }
          : item,
      );
    }
  }
  return converted;
}

function toMicroUnits(value: unknown, what: string): string {
  const amount = parseMicroUnits(String(value));
  if (amount !== undefined && amount > 0) return String(amount);
  throw new AppError('invalidInput', `${what} is not a valid amount: ${String(value)}.`, {
    hint: 'Write 2.50 for two and a half units. At most 6 decimal places are allowed.',
  });
}

/** Returns the schema with descriptions for people where a field is typed in units. */
export function describeUnits(schema: Schema, units: Units = {}): Schema {
  const { properties = {} } = schema;
  const described = Object.entries(properties).map(([field, property]) => {
    const description = units[field];
    return [field, description === undefined ? property : { ...property, description }];
  });
  return { ...schema, properties: Object.fromEntries(described) as Record<string, Schema> };
}
