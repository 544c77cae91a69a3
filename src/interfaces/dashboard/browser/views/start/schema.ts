// The input schema of an operation as fields of a form, from the OpenAPI document of the server.
import { get } from '../../api.ts';

interface Schema {
  type?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
}

interface Described {
  operationId: string;
  summary: string;
  description: string;
  parameters?: { name: string; in: string; required: boolean; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  'x-errand-rare'?: string[];
}

interface OpenApi {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
}

type Control =
  | { type: 'text' | 'long' | 'time' | 'amount' | 'lines' | 'pairs' | 'json' }
  | { type: 'number'; min: number | undefined; max: number | undefined; isWhole: boolean }
  | { type: 'flag' }
  | { type: 'choice' | 'several'; options: readonly unknown[] };

export interface Field {
  name: string;
  label: string;
  description: string;
  control: Control;
  isNeeded: boolean;
  isInPath: boolean;
}

export interface Form {
  title: string;
  method: string;
  path: string;
  /** Always shown. */
  fields: Field[];
  /** Folded at first. */
  rare: Field[];
}

let loading: Promise<OpenApi> | undefined;

/** The document is loaded once: it changes only with the version of the server. */
function document(): Promise<OpenApi> {
  loading ??= get<OpenApi>('openapi.json').catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

interface FormOptions {
  /** Optional fields that are shown at first. */
  first: readonly string[];
  /** Fields that the form never sends. */
  omitted: readonly string[];
}

export async function loadForm(name: string, { first, omitted }: FormOptions): Promise<Form> {
  const { paths, components } = await document();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, described] of Object.entries(methods)) {
      if (described.operationId !== name) continue;
      const all = fieldsOf(described, components.schemas).filter(
        (field) => !omitted.includes(field.name),
      );
      const isFirst = (field: Field) => field.isNeeded || first.includes(field.name);
      const rareNames = described['x-errand-rare'] ?? [];
      const order = (field: Field) => rareNames.indexOf(field.name);
      return {
        title: described.summary,
        method: method.toUpperCase(),
        path: path.slice(1),
        fields: all.filter(isFirst).toSorted((a, b) => rank(a, first) - rank(b, first)),
        rare: all.filter((field) => !isFirst(field)).toSorted((a, b) => order(a) - order(b)),
      };
    }
  throw new Error(`This server does not offer ${name}.`);
}

const rank = ({ name, isNeeded, isInPath }: Field, first: readonly string[]): number =>
  isInPath ? -2 : first.includes(name) ? first.indexOf(name) : isNeeded ? -1 : first.length;

function fieldsOf(
  { parameters = [], requestBody }: Described,
  schemas: Readonly<Record<string, Schema>>,
): Field[] {
  const resolve = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : (schemas[schema.$ref.split('/').at(-1)!] ?? {});
  const body = resolve(requestBody?.content['application/json']?.schema ?? {});
  const inPath = parameters.map(({ name, schema, required }) =>
    fieldOf(name, resolve(schema), { isNeeded: required, isInPath: true }),
  );
  const inBody = Object.entries(body.properties ?? {}).map(([name, schema]) =>
    fieldOf(name, resolve(schema), {
      isNeeded: body.required?.includes(name) === true,
      isInPath: false,
    }),
  );
  return [...inPath, ...inBody];
}

function fieldOf(name: string, schema: Schema, place: Pick<Field, 'isNeeded' | 'isInPath'>): Field {
  const { description = '' } = schema;
  const control = controlOf(schema);
  const shown = control.type === 'amount' ? 'Amount, like 2.50' : description;
  return { name, label: labelOf(name), description: shown, control, ...place };
}

/** Names that are not words. */
const labels: Readonly<Record<string, string>> = {
  argv: 'Program and arguments',
  cwd: 'Folder',
  env: 'Environment variables',
  tty: 'Terminal',
  stdin: 'Standard input',
  ttlMs: 'Give up after (ms)',
};

/** `maxPages` → `Max pages`. */
function labelOf(name: string): string {
  if (Object.hasOwn(labels, name)) return labels[name]!;
  const words = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  const text = words.replace(/ ms$/, ' (ms)').replace(/\burl(s?)\b/, 'URL$1');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Longer texts get several lines. */
const maxLineChars = 1000;

function controlOf(schema: Schema): Control {
  const { type, description = '', format, maxLength = 0 } = schema;
  if (schema.enum) return { type: 'choice', options: schema.enum };
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return controlOfVariants(variants);
  if (type === 'boolean')
    return /default:? true/i.test(description)
      ? { type: 'choice', options: [true, false] }
      : { type: 'flag' };
  if (type === 'integer' || type === 'number')
    return {
      type: 'number',
      min: schema.minimum,
      max: schema.maximum,
      isWhole: type === 'integer',
    };
  if (type === 'string') {
    if (/micro-units/i.test(description)) return { type: 'amount' };
    if (format === 'date-time') return { type: 'time' };
    return { type: maxLength > maxLineChars && format !== 'uri' ? longOr(description) : 'text' };
  }
  if (type === 'array' && schema.items?.enum)
    return { type: 'several', options: schema.items.enum };
  if (type === 'array' && schema.items?.type === 'string') return { type: 'lines' };
  const values = schema.additionalProperties;
  const isMap = type === 'object' && !schema.properties && typeof values === 'object';
  return { type: isMap && values.type === 'string' ? 'pairs' : 'json' };
}

/** A folder or URL may be long, but it is one line. */
const longOr = (description: string): 'long' | 'text' =>
  /folder|URL/i.test(description) ? 'text' : 'long';

/** Simple alternatives can be chosen. Everything else is entered as JSON. */
function controlOfVariants(variants: readonly Schema[]): Control {
  const simple = variants.flatMap((one): unknown[] => {
    if (one.type === 'boolean') return [true];
    if (one.const !== undefined) return [one.const];
    return one.enum ?? [];
  });
  if (simple.length > 0) return { type: 'choice', options: simple };
  const number = variants.find(({ type }) => type === 'integer' || type === 'number');
  return number ? controlOf(number) : { type: 'json' };
}
