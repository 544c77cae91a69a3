// Contracts of the operations on endpoints that dialects call.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { omitted } from '../../../runtime/response-budget.ts';
import { endpointChanges, endpointId, endpointSpec } from '../spec.ts';

const healthView = z.object({
  jobs: z.record(z.string(), z.number()),
  workers: z.record(z.string(), z.number()),
});

const endpointView = z.looseObject({
  id: z.string(),
  version: z.number(),
  source: z.enum(['api', 'config']),
  spec: endpointSpec,
  health: healthView,
  state: z.string().describe('Summary of the health'),
  trouble: z.string().optional().describe('Why its workers do not start'),
  note: z.string().optional().describe('Note about this change'),
  webhookSecret: z.string().optional(),
  createdAt: z.string(),
});
export type EndpointView = z.infer<typeof endpointView>;

export const saveEndpoint = defineContract({
  name: 'save_endpoint',
  input: z.object({
    id: endpointId.optional().describe('Default: a new random id'),
    ...endpointChanges,
    create: z.boolean().optional().describe('Fail if the endpoint exists'),
  }),
  output: endpointView,
});

export const listEndpoints = defineContract({
  name: 'list_endpoints',
  input: z.object({
    limit: z.number().int().min(1).max(1000).default(100),
    after: z.string().max(100).optional().describe('Id of the last endpoint of the previous page'),
  }),
  output: z.object({
    endpoints: z.array(endpointView),
    next: z.string().optional(),
    omitted: omitted.optional(),
  }),
});

export const getEndpoint = defineContract({
  name: 'get_endpoint',
  input: z.object({ id: z.string().max(100) }),
  output: endpointView,
});

export const deleteEndpoint = defineContract({
  name: 'delete_endpoint',
  input: z.object({ id: z.string().max(100) }),
  output: z.object({ id: z.string(), cancelled: z.number() }),
});

export const purgeQueue = defineContract({
  name: 'purge_queue',
  input: z.object({ endpointId: z.string().max(100) }),
  output: z.object({ removed: z.number() }),
});

export const listReleases = defineContract({
  name: 'list_releases',
  input: z.object({ endpointId: z.string().max(100) }),
  output: z.object({
    version: z.number(),
    workers: z.number(),
    workersOnLatest: z.number(),
    releases: z.array(
      z.object({
        version: z.number(),
        by: z.string(),
        workers: z.number(),
        createdAt: z.string(),
        diff: z.array(z.object({ field: z.string(), old: z.unknown(), new: z.unknown() })),
      }),
    ),
  }),
});
