// RunPod's MCP tools for features that only its cloud has: builds, GPU selection, billing, public endpoints and the
// hub. They exist under their original names and explain what this server offers instead.
import { textOf } from '../../runtime/json.ts';
import { z } from 'zod';
import type { DialectCall, DialectTool } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { updateEndpoint } from './control-plane.ts';
import { endpointBody } from './endpoint-shape.ts';
import { get, tool, type Input } from './endpoint-tools.ts';
import { endpointId } from './tools.ts';

const page = {
  limit: z.number().int().min(1).max(100).default(20).describe('Entries per page, 1 to 100'),
  cursor: z.string().optional().describe('nextCursor of the previous page'),
  searchTerm: z.string().optional().describe('Search term'),
};
const items = z.looseObject({ items: z.array(z.unknown()), pagination: z.looseObject({}) });

export const catalogueTools: DialectTool[] = [
  tool('list-endpoint-builds', 'List endpoint builds', 'read', {
    description:
      'List the builds of a Serverless endpoint from a repository; always empty here, because this server does not build images. Do not wait for a build: use list-endpoint-releases for versions and create-endpoint for an existing image. An unknown endpoint is an error. Changes nothing.',
    input: z.strictObject({ id: endpointId }),
    output: z.looseObject({ builds: z.array(z.unknown()) }),
    run: async (input, call) => {
      await get(input.id, call);
      return { builds: [] };
    },
  }),
  tool('get-endpoint-build', 'Get endpoint build', 'read', {
    description:
      'Return one build of a Serverless endpoint; this server has none, so it always fails with notFound. Use list-endpoint-releases for the versions of an endpoint. Changes nothing.',
    input: z.strictObject({ id: endpointId, buildId: z.string().describe('Id of the build') }),
    output: z.looseObject({}),
    run: async (input, call) => {
      await get(input.id, call);
      throw new AppError(
        'notFound',
        `Build ${textOf(input.buildId).slice(0, 80)} does not exist.`,
        {
          hint: 'This server does not build endpoints from a repository. list-endpoint-releases shows versions.',
        },
      );
    },
  }),
  tool('set-endpoint-gpus', 'Set endpoint GPUs', 'write', {
    description:
      'Record which GPUs a Serverless endpoint is meant for; get-endpoint shows the setting. Workers use the GPUs of this machine, so it does not affect scheduling here. For other settings use update-endpoint. Pass gpuIds, or pools with excludeGpuTypeIds.',
    idempotent: true,
    input: z.strictObject({
      endpointId,
      gpuIds: z.string().optional().describe('GPU pools, separated by commas'),
      pools: z.array(z.string()).optional().describe('GPU pools, as a list'),
      excludeGpuTypeIds: z.array(z.string()).optional().describe('GPU types not to use'),
      gpuCount: z.number().int().min(1).optional().describe('GPUs per worker'),
      minCudaVersion: z.string().optional().describe('Lowest CUDA version'),
      allowedCudaVersions: z.string().optional().describe('CUDA versions, separated by commas'),
    }),
    output: z.looseObject({ id: z.string() }),
    run: setGpus,
  }),
  tool('list-serverless-billing', 'List serverless billing', 'read', {
    description:
      'List what Serverless endpoints cost per period; always empty here, because this server does not charge for jobs. For usage by state use endpoint-health. Changes nothing.',
    input: z.strictObject({
      startTime: z.string().optional().describe('Start, RFC 3339'),
      endTime: z.string().optional().describe('End, RFC 3339'),
      bucketSize: z
        .enum(['hour', 'day', 'week', 'month', 'year'])
        .optional()
        .describe('Length of a period'),
      lastN: z.number().int().min(1).optional().describe('Only the last periods'),
      serverlessId: z.string().optional().describe('Only this endpoint'),
    }),
    output: z.looseObject({ records: z.array(z.unknown()) }),
    run: async () => ({ records: [], note: 'Jobs on this server are free.' }),
  }),
  tool('list-public-endpoints', 'List public endpoints', 'read', {
    description:
      'List public endpoints that others offer; always empty here, because this server has no public catalogue. Use list-endpoints for the endpoints you can run. Changes nothing.',
    input: z.strictObject({
      ...page,
      modality: z.string().optional().describe('Only this kind of model, such as text'),
      owner: z.string().optional().describe('Only endpoints of this owner'),
      includeOffline: z.boolean().optional().describe('Also endpoints that are offline'),
    }),
    output: items,
    run: async () =>
      none('This server has no public endpoints. list-endpoints shows the endpoints you can run.'),
  }),
  tool('list-hub-repos', 'List hub repos', 'read', {
    description:
      'List ready-made workers of the hub; always empty here, because this server has no hub. Use create-endpoint with a container image or a handler file instead. Changes nothing.',
    input: z.strictObject({
      ...page,
      category: z.string().optional().describe('Only this category'),
      type: z.enum(['SERVERLESS', 'POD']).optional().describe('Only this kind of worker'),
      repoOwner: z.string().optional().describe('Only repositories of this owner'),
      includeConfig: z.boolean().optional().describe('Also the settings of each worker'),
    }),
    output: items,
    run: async () =>
      none('This server has no hub. create-endpoint accepts an image or a handler file.'),
  }),
  tool('deploy-hub-repo', 'Deploy hub repo', 'write', {
    description:
      'Deploy a worker of the hub as an endpoint; always rejected here, because this server has no hub. Use create-endpoint with the container image of the worker instead.',
    input: z.strictObject({
      repo: z.string().optional().describe('Repository of the worker, owner/name'),
      hubReleaseId: z.string().optional().describe('Release of the worker'),
      name: z.string().optional().describe('Name of the endpoint'),
      env: z.record(z.string(), z.string()).optional().describe('Environment of the workers'),
      gpuIds: z.string().optional().describe('GPU pools, separated by commas'),
      gpuCount: z.number().int().optional().describe('GPUs per worker'),
      containerDiskInGb: z.number().int().optional().describe('Disk per worker in GB'),
      workersMin: z.number().int().optional().describe('Workers that always run'),
      workersMax: z.number().int().optional().describe('Maximum number of workers'),
      idleTimeout: z.number().int().optional().describe('Seconds until an idle worker ends'),
      scalerType: z.enum(['QUEUE_DELAY', 'REQUEST_COUNT']).optional().describe('Scaling rule'),
      scalerValue: z.number().optional().describe('Threshold of the scaler'),
      executionTimeoutMs: z
        .number()
        .int()
        .optional()
        .describe('Maximum running time of a job in ms'),
      flashboot: z.boolean().optional().describe('Start workers from a snapshot'),
    }),
    output: z.looseObject({}),
    run: async (input) => {
      const what = textOf(input.repo ?? input.hubReleaseId ?? 'it').slice(0, 100);
      throw new AppError(
        'notFound',
        `${what} cannot be deployed, because this server has no hub.`,
        {
          hint: 'Build or pull its container image and call create-endpoint with "image".',
        },
      );
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
