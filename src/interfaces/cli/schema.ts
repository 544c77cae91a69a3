// The subset of JSON Schema that flags are generated from.
export interface Schema {
  type?: string | string[];
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  default?: unknown;
  maxLength?: number;
  description?: string;
}

export function typeOf(property: Schema): string {
  if (Array.isArray(property.type)) return property.type.find((type) => type !== 'null') ?? 'any';
  if (property.type) return property.type;
  const option = (property.anyOf ?? property.oneOf)?.find((one) => one.type !== 'null');
  if (option) return typeOf(option);
  return property.enum ? 'string' : 'any';
}

/** Names of flags: `runAt` is `--run-at`. */
export const kebab = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
