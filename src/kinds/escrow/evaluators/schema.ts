// The JSON Schema of a rule: the server asks whether it is one, the thread that checks a delivery asks what is wrong with that.
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { ajvCode } from '../../../runtime/schema-code.ts';

export type JsonSchema = Record<string, unknown>;

const errorsShownMax = 5;

/** Throws for what is no schema, in Ajv's words. */
export function compileSchema(schema: JsonSchema): ValidateFunction {
  const dialect = typeof schema.$schema === 'string' ? schema.$schema : '';
  const options = {
    strict: false,
    allErrors: true,
    validateFormats: true,
    logger: false,
    // A part that many refer to is compiled once: put in place each time, a small schema would make endless code.
    inlineRefs: false,
    code: ajvCode,
  } as const;
  const ajv = dialect.includes('draft-07') ? new Ajv(options) : new Ajv2020(options);
  (addFormats as unknown as (ajv: Ajv) => void)(ajv);
  return ajv.compile(schema);
}

/** What does not fit, as one line; empty when everything does. */
export function schemaErrors(schema: JsonSchema, value: unknown): string {
  const validate = compileSchema(schema);
  if (validate(value)) return '';
  return (validate.errors ?? [])
    .slice(0, errorsShownMax)
    .map(({ instancePath, message }) => `${instancePath || '/'} ${message ?? ''}`.trim())
    .join('; ');
}
