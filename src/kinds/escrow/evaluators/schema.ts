// JSON Schema rules: the server validates the schema, the worker thread reports what is wrong with a delivery.
import type { ValidateFunction } from 'ajv';
import { compileJsonSchema, type JsonSchema } from '../../../runtime/json-schema.ts';

export type { JsonSchema };

const maxErrorsShown = 5;

/** Throws Ajv's error if this is not a schema. */
export const compileSchema = (schema: JsonSchema): ValidateFunction =>
  compileJsonSchema(schema, 'full');

/** Lists the mismatches in one line; empty if the value matches. */
export function schemaErrors(schema: JsonSchema, value: unknown): string {
  const validate = compileSchema(schema);
  if (validate(value)) return '';
  return (validate.errors ?? [])
    .slice(0, maxErrorsShown)
    .map(({ instancePath, message }) => `${instancePath || '/'} ${message ?? ''}`.trim())
    .join('; ');
}
