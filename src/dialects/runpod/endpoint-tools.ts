// RunPod's MCP endpoint tools under their exact names: list, get, create, update, delete, workers, releases, logs.
import { z } from 'zod';
import type { DialectCall, DialectTool } from '../../dialect.ts';
import { createEndpoint, releasesBody, updateEndpoint, type Releases } from './control-plane.ts';
import { endpointBody, workersBody, type EndpointView, type WorkerView } from './endpoint-shape.ts';
import { answered, endpointId } from './tools.ts';

export type Input = Record<string, unknown>;

const body = z.looseObject({
  name: z.string().optional(),
  type: z.enum(['QUEUE', 'LOAD_BALANCER']).optional(),
  scaling: z
    .looseObject({ type: z.enum(['QUEUE_DELAY', 'REQUEST_COUNT']) })
    .optional()
    .describe('{type:"QUEUE_DELAY",queueDelay} or {type:"REQUEST_COUNT",requestCount}'),
  image: z
    .string()
    .optional()
    .describe('Container image, or file:///path/handler.ts for a handler on this machine'),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  workers: z
    .looseObject({
      min: z.number().int().optional(),
      max: z.number().int().optional(),
      idleTimeout: z.number().int().optional().describe('Seconds'),
    })
    .optional(),
  timeout: z.number().int().optional().describe('Execution timeout in ms'),
});
const id = endpointId;
const endpoint = z.looseObject({ id: z.string(), name: z.string() });

export const endpointTools: DialectTool[] = [
  tool('list-endpoints', 'List endpoints', 'read', {
    description: 'List Serverless endpoints, trimmed, by page.',
    input: z.strictObject({
      limit: z.number().int().min(1).max(100).default(20),
      cursor: z.string().optional(),
    }),
    output: z.looseObject({ items: z.array(endpoint), pagination: z.looseObject({}) }),
    run: list,
  }),
  tool('get-endpoint', 'Get endpoint', 'read', {
    description: 'One Serverless endpoint with its request URLs.',
    input: z.strictObject({ id }),
    output: endpoint,
    run: async (input, call) => endpointBody(await get(input.id, call), base),
  }),
  tool('create-endpoint', 'Create endpoint', 'write', {
    description:
      'Create a Serverless endpoint of type QUEUE. Then run jobs with run-endpoint. Needs body with name, type and scaling.',
    input: z.strictObject({ body }),
    output: endpoint,
    run: async (input, call) => endpointBody(await createEndpoint(input.body, call), base),
  }),
  tool('update-endpoint', 'Update endpoint', 'write', {
    description:
      'Change fields of an endpoint. A changed container is a new release: workers in use finish their job first.',
    idempotent: true,
    input: z.strictObject({ id, body }),
    output: endpoint,
    run: async (input, call) =>
      endpointBody(await updateEndpoint(input.id as string, input.body, call), base),
  }),
  tool('delete-endpoint', 'Delete endpoint', 'destroy', {
    description: 'Delete an endpoint at once; its waiting and running jobs are cancelled.',
    idempotent: true,
    input: z.strictObject({ id }),
    output: z.looseObject({ id: z.string() }),
    run: (input, { operations, context }) =>
      operations.call('delete_endpoint', { id: input.id }, context),
  }),
  tool('list-endpoint-workers', 'List endpoint workers', 'read', {
    description: 'Workers of an endpoint with their states, and a summary.',
    input: z.strictObject({ id }),
    output: z.looseObject({ workers: z.array(z.looseObject({})), summary: z.looseObject({}) }),
    run: workers,
  }),
  tool('list-endpoint-releases', 'List endpoint releases', 'read', {
    description: 'Versions of an endpoint, what each changed, and how far the rollout is.',
    input: z.strictObject({ id }),
    output: z.looseObject({ endpointVersion: z.number(), releases: z.array(z.looseObject({})) }),
    run: async (input, { operations, context }) =>
      releasesBody(
        await operations.call<Releases>('list_releases', { endpointId: input.id }, context),
      ),
  }),
  tool('stream-worker-logs', 'Read worker logs', 'read', {
    description:
      'A bounded snapshot of what a worker printed (container) and what was noted about it (system).',
    input: z.strictObject({
      endpointId,
      workerId: z.string(),
      source: z.enum(['container', 'system', 'both']).default('both'),
      tail: z.number().int().min(0).max(5000).default(100),
      since: z.string().optional().describe('RFC 3339; instead of tail'),
      maxWaitMs: z.number().int().min(500).max(30_000).optional(),
    }),
    output: z.looseObject({ items: z.array(z.looseObject({})), count: z.number() }),
    run: logs,
  }),
];

/** What a list shows of an endpoint. */
const fields = [
  'id',
  'name',
  'type',
  'image',
  'gpu',
  'cpu',
  'workers',
  'scaling',
  'dataCenterIds',
  'flashboot',
  'createdAt',
];
/** Tools are read by people beside the server, who know where it is; links are paths. */
const base = '';
const logBytesMax = 256 * 1024;

export function tool(
  name: string,
  title: string,
  effect: DialectTool['effect'],
  rest: {
    description: string;
    idempotent?: boolean;
    input: z.ZodType;
    output: z.ZodType;
    run(input: Input, call: DialectCall): Promise<unknown>;
  },
): DialectTool {
  return {
    name,
    title,
    effect,
    openWorld: true,
    description: rest.description,
    ...(rest.idempotent ? { idempotent: true } : {}),
    input: rest.input,
    output: rest.output,
    run: (input, call) => answered(rest.run(input as Input, call), 'endpoint'),
  };
}

export function get(wanted: unknown, { operations, context }: DialectCall): Promise<EndpointView> {
  return operations.call<EndpointView>('get_endpoint', { id: wanted }, context);
}

async function list(input: Input, { operations, context }: DialectCall): Promise<unknown> {
  const { endpoints } = await operations.call<{ endpoints: EndpointView[] }>(
    'list_endpoints',
    { limit: 1000 },
    context,
  );
  const limit = input.limit as number;
  const offset =
    typeof input.cursor === 'string'
      ? Number(Buffer.from(input.cursor, 'base64').toString('utf8')) || 0
      : 0;
  const page = endpoints.slice(offset, offset + limit);
  const truncated = offset + limit < endpoints.length;
  return {
    items: page.map((view) => {
      const whole = endpointBody(view, base);
      return Object.fromEntries(fields.map((field) => [field, whole[field]]));
    }),
    pagination: {
      total: endpoints.length,
      returned: page.length,
      offset,
      truncated,
      ...(truncated ? { nextCursor: Buffer.from(String(offset + limit)).toString('base64') } : {}),
    },
  };
}

async function workers(input: Input, call: DialectCall): Promise<unknown> {
  const view = await get(input.id, call);
  const found = await call.operations.call<{ version: number; workers: WorkerView[] }>(
    'list_workers',
    { endpointId: input.id },
    call.context,
  );
  return workersBody(found, view.spec.recipe?.image ?? null);
}

async function logs(input: Input, { operations, context }: DialectCall): Promise<unknown> {
  const { maxWaitMs: _wait, ...wish } = input;
  const { lines } = await operations.call<{
    lines: { ts: string; source: string; line: string }[];
  }>('read_worker_log', wish, context);
  const items: unknown[] = [];
  let bytes = 0;
  for (const { ts, source, line } of lines.toReversed()) {
    bytes += line.length + 80;
    if (bytes > logBytesMax) break;
    items.unshift({ source, line, ts });
  }
  return { items, count: items.length, truncated: items.length < lines.length };
}
