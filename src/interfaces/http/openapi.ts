// Generates the OpenAPI 3.1 documents from the operations and the dialect routes: one for clients, one for workers.
// Schemas are placed under components, so that the references inside them stay valid.
import type { Dialect, DialectRoute, RouteDoc } from '../../dialect.ts';
import type { Operation } from '../../operation.ts';
import { byName } from '../../runtime/by-name.ts';
import { inputSchema, outputSchema, propertiesOf } from './input.ts';
import { routeOf } from './routes.ts';

type Json = Record<string, unknown>;

interface OpenApiSource {
  operations: readonly Operation[];
  version: string;
  dialects?: readonly Dialect[];
  /** Maps operation names to kinds; the kind becomes the tag. */
  kinds?: ReadonlyMap<string, string>;
}

/** `internal` selects the routes for workers, remotes and other nodes. */
export function openApiDocument(source: OpenApiSource, part: 'public' | 'internal'): Json {
  const { operations, version, dialects = [], kinds } = source;
  const schemas: Json = { Problem: problemSchema };
  const paths: Record<string, Json> = {};
  const wantsInternal = part === 'internal';
  for (const operation of operations) {
    if (isInternal(operation) !== wantsInternal) continue;
    const { method, path } = routeOf(operation);
    const tag = kinds?.get(operation.name) ?? tagOf(path);
    (paths[path] ??= {})[method.toLowerCase()] = describe(operation, schemas, tag);
  }
  for (const { name, routes = [], routeDocs = {} } of dialects) {
    for (const route of routes) {
      const doc = routeDocs[`${route.method} ${route.path}`];
      if ((doc?.isInternal === true) !== wantsInternal) continue;
      const path = route.path.replaceAll('*}', '}');
      (paths[path] ??= {})[route.method.toLowerCase()] = describeForeign(name, route, path, doc);
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: wantsInternal ? 'Errand: worker routes' : 'Errand',
      version,
      description: 'The job system for AI agents.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    // Relative to the URL of the document.
    servers: [{ url: '/' }],
    tags: tagsOf(paths),
    paths: wantsInternal ? paths : { ...paths, '/health': { get: health } },
    components: {
      schemas,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
    security: [{ bearer: [] }, { apiKey: [] }],
  };
}

const isInternal = ({ isInternal: isMarked, scope }: Operation): boolean =>
  isMarked === true || scope === 'worker';

const tags: Readonly<Record<string, string>> = byName({
  jobs: 'jobs',
  wait: 'jobs',
  deliveries: 'webhooks',
  webhooks: 'webhooks',
  queues: 'queues',
  keys: 'keys',
  nodes: 'nodes',
});

/** The tag of an operation that belongs to no kind, derived from its path. */
const tagOf = (path: string): string => tags[path.split('/')[2] ?? ''] ?? 'server';

function tagsOf(paths: Readonly<Record<string, Json>>): Json[] {
  const used = Object.values(paths).flatMap((methods) =>
    Object.values(methods).flatMap((one) => (one as { tags: string[] }).tags),
  );
  return [...new Set(used)].toSorted().map((name) => ({ name }));
}

function describe(operation: Operation, schemas: Json, tag: string): Json {
  const { method, path } = routeOf(operation);
  const base = pascal(operation.name);
  const input = withoutDefaults(inputSchema(operation)) as Json;
  hoist(schemas, `${base}Output`, outputSchema(operation));
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  const inBody = method !== 'GET' && method !== 'DELETE';
  hoist(schemas, `${base}Input`, inBody ? without(input, inPath) : input);
  const schema = schemas[`${base}Input`] as Json;
  const fields = { input, hoisted: schema, inPath, component: `${base}Input` };
  const fromPath = inPath.map((name) => parameter(fields, name, 'path'));
  const fromQuery = inBody ? [] : queryParameters(fields);
  const parameters = [...fromPath, ...fromQuery];
  // Input that is listed as parameters needs no component, unless a parameter refers to it.
  if (!inBody && !JSON.stringify(parameters).includes(`schemas/${fields.component}"`))
    delete schemas[fields.component];
  return {
    operationId: operation.name,
    tags: [tag],
    summary: operation.title,
    description: operation.description,
    ...(operation.scope === 'public' ? { security: [{}, { bearer: [] }] } : {}),
    'x-errand-scope': operation.scope,
    'x-errand-effect': operation.effect,
    ...rareFields(operation),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(inBody ? { requestBody: body(`${base}Input`, required(input, inPath).length > 0) } : {}),
    responses: {
      200: {
        description: 'The result.',
        content: {
          'application/json': { schema: { $ref: `#/components/schemas/${base}Output` } },
          ...(operation.stream ? { 'text/event-stream': { schema: { type: 'string' } } } : {}),
        },
      },
      default: {
        description: 'An error.',
        content: { 'application/problem+json': { schema: ref('Problem') } },
      },
    },
  };
}

/** Names of the fields that a form may fold. An entry of `rareInput` may have a note after the name. */
function rareFields({ rareInput = [], unlistedInput = [] }: Operation): Json {
  const names = [...rareInput, ...unlistedInput].map((text) => text.split(' ')[0]!);
  return names.length === 0 ? {} : { 'x-errand-rare': names };
}

/**
 * Generated clients treat a request field with a `default` as required, so the description states the default instead.
 */
function withoutDefaults(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutDefaults);
  if (schema === null || typeof schema !== 'object') return schema;
  const { default: preset, ...rest } = schema as Json;
  const plain: Json = Object.fromEntries(
    Object.entries(rest).map(([key, part]) => [key, withoutDefaultsBelow(key, part)]),
  );
  if (preset === undefined) return plain;
  const text = `Default: ${JSON.stringify(preset)}.`;
  const { description } = plain;
  return {
    ...plain,
    description: typeof description === 'string' ? `${withPeriod(description)} ${text}` : text,
  };
}

/** `properties` and `$defs` map names to schemas: a field may be named `default`. */
function withoutDefaultsBelow(key: string, part: unknown): unknown {
  if (key === 'enum' || key === 'const') return part;
  if (key !== 'properties' && key !== '$defs') return withoutDefaults(part);
  return Object.fromEntries(
    Object.entries(part as Json).map(([name, schema]) => [name, withoutDefaults(schema)]),
  );
}

const withPeriod = (text: string): string => (/[.!?…]$/.test(text) ? text : `${text}.`);

/** A dialect route: its request and response have the format of the other system. */
function describeForeign(
  dialect: string,
  { method, auth }: DialectRoute,
  path: string,
  doc: RouteDoc | undefined,
): Json {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  const string = { schema: { type: 'string' } };
  const parameters = [
    ...inPath.map((name) => ({ name, in: 'path', required: true, ...string })),
    ...(doc?.query ?? []).map((name) => ({ name, in: 'query', required: false, ...string })),
  ];
  const json = (schema: unknown) => ({ 'application/json': { schema } });
  const { status = 200, summary, body: sent, response } = doc ?? {};
  return {
    operationId: [dialect, method.toLowerCase(), ...path.split(/\W+/).filter(Boolean)].join('_'),
    tags: [`dialect ${dialect}`],
    summary: summary ?? `${method} ${path} as in ${dialect}`,
    ...(auth === 'none' ? { security: [{}, { bearer: [] }] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(sent ? { requestBody: { required: true, content: json(sent) } } : {}),
    responses: {
      [status]: {
        description: status === 204 ? 'Done.' : 'The response.',
        ...(response ? { content: json(response) } : {}),
      },
      default: { description: `An error in the format of ${dialect}.`, content: json({}) },
    },
  };
}

interface InputFields {
  input: Json;
  /** The same schema under components, with updated references. */
  hoisted: Json;
  inPath: string[];
  component: string;
}

/** GET requests have no body: fields that are not in the path are query parameters. */
function queryParameters(fields: InputFields): Json[] {
  return Object.keys(propertiesOf(fields.input))
    .filter((name) => !fields.inPath.includes(name))
    .map((name) => parameter(fields, name, 'query'));
}

function parameter(fields: InputFields, name: string, where: 'path' | 'query'): Json {
  const { input, hoisted, component } = fields;
  const property = propertiesOf(input)[name];
  const needed = (input.required ?? []) as string[];
  const schema = (hoisted.properties as Json | undefined)?.[name] ?? property ?? { type: 'string' };
  return {
    name,
    in: where,
    required: where === 'path' || needed.includes(name),
    ...(property?.description ? { description: property.description } : {}),
    schema: relocated(schema, component),
  };
}

/** Moves a schema and its definitions under components and updates its references. */
function hoist(schemas: Json, name: string, schema: Json): void {
  const { $defs, $schema: _, ...rest } = schema;
  schemas[name] = relocated(rest, name);
  for (const [key, value] of Object.entries(($defs ?? {}) as Json))
    schemas[`${name}_${key}`] = relocated(value, name);
}

function relocated(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.map((item) => relocated(item, name));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => {
      if (key !== '$ref' || typeof part !== 'string') return [key, relocated(part, name)];
      if (part === '#') return [key, `#/components/schemas/${name}`];
      return [key, part.replace(/^#\/\$defs\//, `#/components/schemas/${name}_`)];
    }),
  );
}

function without(schema: Json, names: string[]): Json {
  const properties = { ...(schema.properties as Json | undefined) };
  for (const name of names) delete properties[name];
  const { required: _, ...rest } = schema;
  const left = required(schema, names);
  return {
    ...rest,
    ...(schema.properties ? { properties } : {}),
    ...(left.length > 0 ? { required: left } : {}),
  };
}

function required(schema: Json, except: string[]): string[] {
  return ((schema.required ?? []) as string[]).filter((name) => !except.includes(name));
}

function body(name: string, isRequired: boolean): Json {
  return { required: isRequired, content: { 'application/json': { schema: ref(name) } } };
}

function ref(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

function pascal(name: string): string {
  return name
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

const problemSchema: Json = {
  type: 'object',
  description: 'What happened (detail), and what to do next (hint). Programs read `code`.',
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    hint: { type: 'string' },
    retryable: { type: 'boolean' },
    data: { type: 'object' },
  },
  required: ['type', 'title', 'status', 'detail', 'code', 'hint', 'retryable'],
};

const health: Json = {
  operationId: 'health',
  tags: ['server'],
  summary: 'Check that the server responds',
  security: [{}],
  responses: {
    200: {
      description: 'The server responds.',
      content: {
        'application/json': {
          schema: {
            type: 'object',
            properties: { status: { type: 'string' }, version: { type: 'string' } },
            required: ['status', 'version'],
          },
        },
      },
    },
  },
};
