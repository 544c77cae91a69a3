// RunPod's MCP endpoint tools under their exact names: list, get, create, update, delete, workers, releases, logs.
import type { EndpointView } from '../../kinds/endpoint/contracts/endpoints.ts';
import {
  deleteEndpoint,
  getEndpoint,
  listEndpoints,
  listReleases,
} from '../../kinds/endpoint/contracts/endpoints.ts';
import { readWorkerLog } from '../../kinds/endpoint/contracts/workers.ts';
import { z } from 'zod';
import { callUnchecked, unbudgeted, type DialectCall, type DialectTool } from '../../dialect.ts';
import { fitItems } from '../../runtime/response-budget.ts';
import { createEndpoint, releasesBody, updateEndpoint } from './control-plane.ts';
import { endpointWorkers, noWorkerId, noWorkerLine } from './worker-list.ts';
import { endpointBody } from './endpoint-shape.ts';
import { toToolResult, endpointId } from './tools.ts';

export type Input = Record<string, unknown>;

const body = z.looseObject({
  name: z.string().optional().describe('Name of the endpoint'),
  type: z.enum(['QUEUE', 'LOAD_BALANCER']).optional().describe('QUEUE; other types are rejected'),
  scaling: z
    .looseObject({
      type: z.enum(['QUEUE_DELAY', 'REQUEST_COUNT']).describe('Scaling rule'),
    })
    .optional()
    .describe('{type:"QUEUE_DELAY",queueDelay} or {type:"REQUEST_COUNT",requestCount}'),
  image: z
    .string()
    .optional()
    .describe('Container image, or file:///path/handler.ts for a handler on this machine'),
  args: z.array(z.string()).optional().describe('Arguments of the container'),
  env: z.record(z.string(), z.string()).optional().describe('Environment of the workers'),
  workers: z
    .looseObject({
      min: z.number().int().optional().describe('Workers that always run'),
      max: z.number().int().optional().describe('Maximum number of workers'),
      idleTimeout: z.number().int().optional().describe('Seconds after which an idle worker ends'),
    })
    .optional()
    .describe('Number of workers'),
  timeout: z.number().int().optional().describe('Maximum running time of a job in ms'),
});
const id = endpointId;
const endpoint = z.looseObject({ id: z.string(), name: z.string() });

export const endpointTools: DialectTool[] = [
  tool('list-endpoints', 'List endpoints', 'read', {
    description:
      'List the Serverless endpoints you can run, page by page, with image, workers and scaling. Use it to find an endpoint id; for one endpoint with its request URLs use get-endpoint. Pass pagination.nextCursor as cursor to continue. Changes nothing.',
    pages: true,
    input: z.strictObject({
      limit: z.number().int().min(1).max(100).default(20).describe('Endpoints per page, 1 to 100'),
      cursor: z.string().optional().describe('nextCursor of the previous page'),
    }),
    output: z.looseObject({ items: z.array(endpoint), pagination: z.looseObject({}) }),
    run: list,
  }),
  tool('get-endpoint', 'Get endpoint', 'read', {
    description:
      'Return one Serverless endpoint with all its settings and request URLs. Use it before update-endpoint or to call the endpoint over HTTP; to find an id use list-endpoints. An unknown id is an error. Changes nothing.',
    input: z.strictObject({ id }),
    output: endpoint,
    run: async (input, call) => endpointBody(await get(input.id, call), call.baseUrl ?? ''),
  }),
  tool('create-endpoint', 'Create endpoint', 'write', {
    description:
      'Create a Serverless endpoint of type QUEUE from a container image or a handler file, and return it with its id. To change an existing endpoint use update-endpoint. body requires name, type and scaling. Every call creates another endpoint. Then run jobs with run-endpoint.',
    input: z.strictObject({ body: body.describe('Settings of the endpoint') }),
    output: endpoint,
    run: async (input, call) =>
      endpointBody(await createEndpoint(input.body, call), call.baseUrl ?? ''),
  }),
  tool('update-endpoint', 'Update endpoint', 'write', {
    description:
      'Change settings of a Serverless endpoint; fields that are missing in body stay unchanged. Use it instead of deleting and creating one. A changed image, args or env creates a new release: busy workers finish their job first. See the releases with list-endpoint-releases. GPUs are set with set-endpoint-gpus.',
    idempotent: true,
    input: z.strictObject({ id, body: body.describe('Settings to change') }),
    output: endpoint,
    run: async (input, call) =>
      endpointBody(await updateEndpoint(input.id as string, input.body, call), call.baseUrl ?? ''),
  }),
  tool('delete-endpoint', 'Delete endpoint', 'destroy', {
    description:
      'Delete a Serverless endpoint immediately and cancel its waiting and running jobs. Use it for endpoints that are no longer needed; to only empty the queue use purge-endpoint-queue. It cannot be undone. Deleting an unknown endpoint is an error.',
    idempotent: true,
    input: z.strictObject({ id }),
    output: z.looseObject({ id: z.string() }),
    run: (input, call) => callUnchecked(call, deleteEndpoint, { id: input.id }),
  }),
  tool('list-endpoint-workers', 'List endpoint workers', 'read', {
    description:
      'List the workers of a Serverless endpoint with their states, and a summary by state. Use it when jobs wait or fail; for counts alone use endpoint-health, for what a worker printed use stream-worker-logs. Changes nothing.',
    input: z.strictObject({ id }),
    output: z.looseObject({ workers: z.array(z.looseObject({})), summary: z.looseObject({}) }),
    run: workers,
  }),
  tool('list-endpoint-releases', 'List endpoint releases', 'read', {
    description:
      'List the releases of a Serverless endpoint, what each changed, and how far the rollout is. Use it after update-endpoint; for the current settings use get-endpoint. Changes nothing.',
    input: z.strictObject({ id }),
    output: z.looseObject({ endpointVersion: z.number(), releases: z.array(z.looseObject({})) }),
    run: async (input, call) =>
      releasesBody(await callUnchecked(call, listReleases, { endpointId: input.id })),
  }),
  tool('stream-worker-logs', 'Read worker logs', 'read', {
    description:
      'Return the latest log lines of one worker: what it printed (container) and what the server logged about it (system). Use it when jobs fail or a worker does not start; find the worker with list-endpoint-workers. Returns immediately and does not follow the log. Changes nothing.',
    input: z.strictObject({
      endpointId,
      workerId: z.string().describe('Id of the worker, from list-endpoint-workers'),
      source: z
        .enum(['container', 'system', 'both'])
        .default('both')
        .describe('Which lines to return'),
      tail: z
        .number()
        .int()
        .min(0)
        .max(5000)
        .default(100)
        .describe('Number of latest lines, 0 to 5,000'),
      since: z.string().optional().describe('Instead of tail: lines since this RFC 3339 time'),
      maxWaitMs: z
        .number()
        .int()
        .min(500)
        .max(30_000)
        .optional()
        .describe('Accepted for compatibility, 500 to 30,000; the response is immediate'),
    }),
    output: z.looseObject({ items: z.array(z.looseObject({})), count: z.number() }),
    run: logs,
  }),
];

/** Summary of an endpoint for lists. */
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

export function tool(
  name: string,
  title: string,
  effect: DialectTool['effect'],
  rest: {
    description: string;
    idempotent?: boolean;
    pages?: true;
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
    ...(rest.pages ? { pages: true as const } : {}),
    input: rest.input,
    output: rest.output,
    run: (input, call) => toToolResult(rest.run(input as Input, call), 'endpoint'),
  };
}

export function get(wanted: unknown, call: DialectCall): Promise<EndpointView> {
  return callUnchecked(call, getEndpoint, { id: wanted });
}

async function list(input: Input, call: DialectCall): Promise<unknown> {
  const { endpoints } = await callUnchecked(unbudgeted(call), listEndpoints, { limit: 1000 });
  const limit = input.limit as number;
  const offset =
    typeof input.cursor === 'string'
      ? Number(Buffer.from(input.cursor, 'base64').toString('utf8')) || 0
      : 0;
  const page = endpoints.slice(offset, offset + limit).map((view) => {
    const whole = endpointBody(view, call.baseUrl ?? '');
    return Object.fromEntries(fields.map((field) => [field, whole[field]]));
  });
  const { shown, omitted } = fitItems(page, call.context.maxResponseBytes);
  const next = offset + shown.length;
  const truncated = next < endpoints.length;
  return {
    items: shown,
    pagination: {
      total: endpoints.length,
      returned: shown.length,
      offset,
      truncated,
      ...(truncated ? { nextCursor: Buffer.from(String(next)).toString('base64') } : {}),
    },
    ...(omitted ? { omitted } : {}),
  };
}

async function workers(input: Input, call: DialectCall): Promise<unknown> {
  return endpointWorkers(input.id, call);
}

async function logs(input: Input, call: DialectCall): Promise<unknown> {
  const { maxWaitMs: _wait, ...query } = input;
  if (query.workerId === noWorkerId) {
    const items = [await noWorkerLine(query.endpointId, call)];
    return { items, count: items.length, truncated: false };
  }
  const { lines, omitted } = await callUnchecked(call, readWorkerLog, query);
  const items = lines.map(({ ts, source, line }) => ({ source, line, ts }));
  const truncated = omitted !== undefined;
  return { items, count: items.length, truncated, ...(truncated ? { omitted } : {}) };
}
