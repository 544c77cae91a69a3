// The OpenAPI 3.1 document, made from the operation list and the routes of the dialects. Schemas live under components, so that references inside
// them still point somewhere once they stand in a larger document.
import type { Dialect, DialectRoute } from '../../dialect.ts';
import type { Operation } from '../../operation.ts';
import { inputSchema, outputSchema, propertiesOf } from './input.ts';
import { routeOf } from './routes.ts';

type Json = Record<string, unknown>;

export function openApiDocument(
  operations: readonly Operation[],
  version: string,
  dialects: readonly Dialect[] = [],
): Json {
  const schemas: Json = { Problem: problemSchema };
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    const { method, path } = routeOf(operation);
    (paths[path] ??= {})[method.toLowerCase()] = describe(operation, schemas);
  }
  for (const { name, routes = [] } of dialects) {
    for (const route of routes) {
      const path = route.path.replaceAll('*}', '}');
      (paths[path] ??= {})[route.method.toLowerCase()] = describeForeign(name, route, path);
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Errand',
      version,
      description: 'The job system for AI agents.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    // Wherever it was fetched from.
    servers: [{ url: '/' }],
    paths: { ...paths, '/health': { get: health } },
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

function describe(operation: Operation, schemas: Json): Json {
  const { method, path } = routeOf(operation);
  const base = pascal(operation.name);
  const input = inputSchema(operation);
  hoist(schemas, `${base}Output`, outputSchema(operation));
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  const inBody = method !== 'GET' && method !== 'DELETE';
  hoist(schemas, `${base}Input`, inBody ? without(input, inPath) : input);
  const schema = schemas[`${base}Input`] as Json;
  const fields = { input, hoisted: schema, inPath, component: `${base}Input` };
  const fromPath = inPath.map((name) => parameter(fields, name, 'path'));
  const fromQuery = inBody ? [] : queryParameters(fields);
  const parameters = [...fromPath, ...fromQuery];
  // Spelled out as parameters an input needs no component of its own, unless they refer to it.
  if (!inBody && !JSON.stringify(parameters).includes(`schemas/${fields.component}"`))
    delete schemas[fields.component];
  return {
    operationId: operation.name,
    summary: operation.title,
    description: operation.description,
    ...(operation.scope === 'public' ? { security: [{}, { bearer: [] }] } : {}),
    'x-errand-scope': operation.scope,
    'x-errand-effect': operation.effect,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(inBody ? { requestBody: body(`${base}Input`, required(input, inPath).length > 0) } : {}),
    responses: {
      200: {
        description: 'The answer.',
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

/** Another system's route: what it takes and answers is that system's own, and documented there. */
function describeForeign(dialect: string, { method, auth }: DialectRoute, path: string): Json {
  const fields = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  return {
    operationId: [dialect, method.toLowerCase(), ...path.split(/\W+/).filter(Boolean)].join('_'),
    tags: [`dialect ${dialect}`],
    summary: `${method} ${path} as ${dialect} has it`,
    ...(auth === 'none' ? { security: [{}, { bearer: [] }] } : {}),
    ...(fields.length > 0
      ? {
          parameters: fields.map((name) => ({
            name,
            in: 'path',
            required: true,
            schema: { type: 'string' },
          })),
        }
      : {}),
    responses: { default: { description: `An answer in the shape of ${dialect}.` } },
  };
}

interface InputFields {
  input: Json;
  /** The same under components, where references point to. */
  hoisted: Json;
  inPath: string[];
  component: string;
}

/** A GET has no body: what is not in the path stands in the query. */
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

/** Moves a schema and its own definitions under components and re-points its references. */
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
  summary: 'Whether the server answers',
  security: [{}],
  responses: {
    200: {
      description: 'It does.',
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
