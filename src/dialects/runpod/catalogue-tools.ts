// RunPod's MCP tools around endpoints that stand for what only its cloud has: builds, GPU choice, billing, public
// endpoints and the hub. They exist under their names so that an agent's habits work, and say plainly what is here.
import { textOf } from '../../runtime/json.ts';
import { z } from 'zod';
import type { DialectCall, DialectTool } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { updateEndpoint } from './control-plane.ts';
import { endpointBody } from './endpoint-shape.ts';
import { get, tool, type Input } from './endpoint-tools.ts';
import { endpointId } from './tools.ts';

const page = {
  limit: z.number().int().min(1).max(100).default(20),
  cursor: z.string().optional(),
  searchTerm: z.string().optional(),
};
const items = z.looseObject({ items: z.array(z.unknown()), pagination: z.looseObject({}) });

export const catalogueTools: DialectTool[] = [
  tool('list-endpoint-builds', 'List endpoint builds', 'read', {
    description:
      'Builds of an endpoint from a repository. Endpoints of this server are not built here, so the list is empty; list-endpoint-releases shows versions.',
    input: z.strictObject({ id: endpointId }),
    output: z.looseObject({ builds: z.array(z.unknown()) }),
    run: async (input, call) => {
      await get(input.id, call);
      return { builds: [] };
    },
  }),
  tool('get-endpoint-build', 'Get endpoint build', 'read', {
    description: 'One build of an endpoint. There are none here; use list-endpoint-releases.',
    input: z.strictObject({ id: endpointId, buildId: z.string() }),
    output: z.looseObject({}),
    run: async (input, call) => {
      await get(input.id, call);
      throw new AppError('notFound', `There is no build ${textOf(input.buildId).slice(0, 80)}.`, {
        hint: 'Endpoints here are not built from a repository; list-endpoint-releases shows versions.',
      });
    },
  }),
  tool('set-endpoint-gpus', 'Set endpoint GPUs', 'write', {
    description:
      'Note which GPUs an endpoint is meant for. Kept and shown with get-endpoint; workers of this machine use the GPUs it has. Give gpuIds, or pools with excludeGpuTypeIds.',
    idempotent: true,
    input: z.strictObject({
      endpointId,
      gpuIds: z.string().optional().describe('Comma-separated'),
      pools: z.array(z.string()).optional(),
      excludeGpuTypeIds: z.array(z.string()).optional(),
      gpuCount: z.number().int().min(1).optional(),
      minCudaVersion: z.string().optional(),
      allowedCudaVersions: z.string().optional().describe('Comma-separated'),
    }),
    output: z.looseObject({ id: z.string() }),
    run: setGpus,
  }),
  tool('list-serverless-billing', 'List serverless billing', 'read', {
    description: 'Spend per endpoint and time bucket. This server bills nothing: always empty.',
    input: z.strictObject({
      startTime: z.string().optional(),
      endTime: z.string().optional(),
      bucketSize: z.enum(['hour', 'day', 'week', 'month', 'year']).optional(),
      lastN: z.number().int().min(1).optional(),
      serverlessId: z.string().optional(),
    }),
    output: z.looseObject({ records: z.array(z.unknown()) }),
    run: async () => ({ records: [], note: 'Jobs of this server cost nothing.' }),
  }),
  tool('list-public-endpoints', 'List public endpoints', 'read', {
    description:
      'Endpoints that others offer. This server has none of its own; an endpoint with a remote (save_endpoint) stands for one elsewhere, and list-endpoints shows it.',
    input: z.strictObject({
      ...page,
      modality: z.string().optional(),
      owner: z.string().optional(),
      includeOffline: z.boolean().optional(),
    }),
    output: items,
    run: async () => none('No public endpoints here; list-endpoints shows those you can run.'),
  }),
  tool('list-hub-repos', 'List hub repos', 'read', {
    description:
      'The catalogue of ready-made workers. This server has none; create-endpoint takes a container image or a handler file.',
    input: z.strictObject({
      ...page,
      category: z.string().optional(),
      type: z.enum(['SERVERLESS', 'POD']).optional(),
      repoOwner: z.string().optional(),
      includeConfig: z.boolean().optional(),
    }),
    output: items,
    run: async () => none('No catalogue here; create-endpoint takes an image or a handler file.'),
  }),
  tool('deploy-hub-repo', 'Deploy hub repo', 'write', {
    description:
      'Deploy a worker of the catalogue as an endpoint. This server has no catalogue: it says so and what to do instead.',
    input: z.strictObject({
      repo: z.string().optional(),
      hubReleaseId: z.string().optional(),
      name: z.string().optional(),
      env: z.record(z.string(), z.string()).optional(),
      gpuIds: z.string().optional(),
      gpuCount: z.number().int().optional(),
      containerDiskInGb: z.number().int().optional(),
      workersMin: z.number().int().optional(),
      workersMax: z.number().int().optional(),
      idleTimeout: z.number().int().optional(),
      scalerType: z.enum(['QUEUE_DELAY', 'REQUEST_COUNT']).optional(),
      scalerValue: z.number().optional(),
      executionTimeoutMs: z.number().int().optional(),
      flashboot: z.boolean().optional(),
    }),
    output: z.looseObject({}),
    run: async (input) => {
      const what = textOf(input.repo ?? input.hubReleaseId ?? 'it').slice(0, 100);
      throw new AppError('notFound', `${what} cannot be deployed: there is no catalogue here.`, {
        hint: 'Build or pull its container image and call create-endpoint with "image".',
      });
    },
  }),
];

async function setGpus(input: Input, call: DialectCall): Promise<unknown> {
  const before = await get(input.endpointId, call);
  const { gpuIds, pools, excludeGpuTypeIds, gpuCount, minCudaVersion, allowedCudaVersions } = input;
  const gpu = {
    ...(before.spec.details?.gpu as object | undefined),
    ...(gpuIds === undefined ? {} : { pools: words(gpuIds) }),
    ...(pools === undefined ? {} : { pools }),
    ...(excludeGpuTypeIds === undefined ? {} : { excludedTypes: excludeGpuTypeIds }),
    ...(gpuCount === undefined ? {} : { count: gpuCount }),
    ...(minCudaVersion === undefined ? {} : { minCudaVersion }),
    ...(allowedCudaVersions === undefined
      ? {}
      : { allowedCudaVersions: words(allowedCudaVersions) }),
  };
  return endpointBody(await updateEndpoint(before.id, { gpu }, call), '');
}

function words(list: unknown): string[] {
  return String(list)
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

function none(note: string): unknown {
  const pagination = { total: 0, returned: 0, offset: 0, truncated: false, note };
  return { items: [], pagination };
}
