// RunPod's routes for the OpenAPI document: purpose, parameters and response of each.
import type { RouteDoc } from '../../dialect.ts';
import { byName } from '../../runtime/by-name.ts';
import { listOf, schemaOf } from '../../runtime/schema-of.ts';

const started = schemaOf({ id: 'string', status: 'string' });
const job = schemaOf({
  id: 'string',
  status: {
    type: 'string',
    enum: ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'],
  },
  'output?': 'any',
  'error?': 'string',
  'delayTime?': 'integer',
  'executionTime?': 'integer',
  'retries?': 'integer',
  'workerId?': 'string',
  'input?': 'any',
  'webhook?': 'string',
});
const request = schemaOf({
  input: 'any',
  'webhook?': 'string',
  'policy?': schemaOf({
    'executionTimeout?': 'integer',
    'ttl?': 'integer',
    'lowPriority?': 'boolean',
  }),
  's3Config?': 'object',
});
const stream = schemaOf({ status: 'string', stream: listOf(schemaOf({ output: 'any' })) });
const counts = schemaOf({ jobs: 'object', workers: 'object' });
const batch = schemaOf({
  id: 'string',
  endpointId: 'string',
  'name?': 'string',
  status: { type: 'string', enum: ['DRAFT', 'FINALIZED', 'CANCELLED'] },
  requestTotal: 'integer',
  requestInProgress: 'integer',
  requestCompleted: 'integer',
  requestFailed: 'integer',
  createdAt: 'integer',
});
const endpoint = schemaOf({
  id: 'string',
  name: 'string',
  type: 'string',
  requestUrls: 'object',
  image: 'string|null',
  args: 'array',
  env: 'object',
  workers: schemaOf({ min: 'integer', max: 'integer', idleTimeout: 'integer' }),
  scaling: 'object',
  timeout: 'integer',
  version: 'integer',
  'trouble?': 'string',
  createdAt: 'string',
});
const endpointFields = schemaOf({
  'name?': 'string',
  'type?': 'string',
  'image?': 'string',
  'args?': 'any',
  'env?': 'object',
  'workers?': schemaOf({ 'min?': 'integer', 'max?': 'integer', 'idleTimeout?': 'integer' }),
  'scaling?': 'object',
  'timeout?': 'integer',
});

const status: RouteDoc = { summary: 'Read a job', query: ['ttl'], response: job };
const statusSync: RouteDoc = {
  summary: 'Wait for a job and read it',
  query: ['wait'],
  response: job,
};
const read: RouteDoc = {
  summary: 'Read the stream of a job',
  query: ['wait', 'after'],
  response: stream,
};
const ping: RouteDoc = { summary: 'Report that a worker is alive', isInternal: true };
const openai: RouteDoc = { summary: "Call the endpoint's OpenAI-compatible API", response: {} };

const jobRoutes: Record<string, RouteDoc> = byName({
  'POST /v2/{endpointId}/run': { summary: 'Queue a job', body: request, response: started },
  'POST /v2/{endpointId}/runsync': {
    summary: 'Queue a job and wait for its result',
    query: ['wait'],
    body: request,
    response: job,
  },
  'GET /v2/{endpointId}/status/{jobId}': status,
  'POST /v2/{endpointId}/status/{jobId}': status,
  'GET /v2/{endpointId}/status-sync/{jobId}': statusSync,
  'POST /v2/{endpointId}/status-sync/{jobId}': statusSync,
  'GET /v2/{endpointId}/stream/{jobId}': read,
  'POST /v2/{endpointId}/stream/{jobId}': read,
  'POST /v2/{endpointId}/cancel/{jobId}': { summary: 'Cancel a job', response: started },
  'POST /v2/{endpointId}/retry/{jobId}': { summary: 'Retry a failed job', response: started },
  'POST /v2/{endpointId}/purge-queue': {
    summary: 'Remove the waiting jobs of an endpoint',
    response: schemaOf({ removed: 'integer', status: 'string' }),
  },
  'GET /v2/{endpointId}/health': { summary: 'Count jobs and workers', response: counts },
  'GET /v2/{endpointId}/metrics': {
    summary: 'List the workers that are ready',
    response: schemaOf({ readyWorkers: listOf('string'), workers: 'object' }),
  },
  'GET /v2/{endpointId}/requests': {
    summary: 'List the jobs of an endpoint',
    response: schemaOf({ requests: listOf(schemaOf({ id: 'string', status: 'string' })) }),
  },
  'GET /v2/{endpointId}/openai/{rest*}': openai,
  'POST /v2/{endpointId}/openai/{rest*}': openai,
});

const batchRoutes: Record<string, RouteDoc> = byName({
  'POST /v2/{endpointId}/batch': {
    summary: 'Create a draft batch',
    body: listOf(request),
    response: started,
  },
  'GET /v2/{endpointId}/batch': {
    summary: 'List batches',
    response: schemaOf({ batches: listOf(batch) }),
  },
  'GET /v2/{endpointId}/batch/{batchId}': { summary: 'Read a batch', response: batch },
  'PUT /v2/{endpointId}/batch/{batchId}': {
    summary: 'Rename a batch',
    body: schemaOf({ name: 'string' }),
    response: batch,
  },
  'POST /v2/{endpointId}/batch/{batchId}/requests': {
    summary: 'Add requests to a draft batch',
    body: schemaOf({ requests: listOf(request) }),
    response: schemaOf({ requests: listOf(schemaOf({ id: 'string' })) }),
  },
  'GET /v2/{endpointId}/batch/{batchId}/requests': {
    summary: 'List the requests of a batch',
    query: ['offset', 'limit'],
    response: schemaOf({
      requests: listOf(schemaOf({ id: 'string', status: 'string' })),
      total: 'integer',
      offset: 'integer',
      limit: 'integer',
      hasMore: 'boolean',
    }),
  },
  'DELETE /v2/{endpointId}/batch/{batchId}/requests/{jobId}': {
    summary: 'Remove a request from a draft batch',
    response: schemaOf({}),
  },
  'POST /v2/{endpointId}/batch/{batchId}/finalize': { summary: 'Start a batch', response: batch },
  'POST /v2/{endpointId}/batch/{batchId}/cancel': { summary: 'Cancel a batch', response: batch },
});

const endpointRoutes: Record<string, RouteDoc> = byName({
  'GET /v2/serverless': {
    summary: 'List endpoints',
    response: schemaOf({ endpoints: listOf(endpoint) }),
  },
  'POST /v2/serverless': {
    summary: 'Create an endpoint',
    status: 201,
    body: endpointFields,
    response: endpoint,
  },
  'GET /v2/serverless/{id}': { summary: 'Read an endpoint', response: endpoint },
  'PATCH /v2/serverless/{id}': {
    summary: 'Change an endpoint',
    body: endpointFields,
    response: endpoint,
  },
  'DELETE /v2/serverless/{id}': { summary: 'Delete an endpoint', status: 204 },
  'GET /v2/serverless/{id}/workers': { summary: 'List workers', response: schemaOf({}) },
  'GET /v2/serverless/{id}/workers/{workerId}/logs': {
    summary: 'Read the log of a worker',
    response: {},
  },
  'GET /v2/serverless/{id}/releases': {
    summary: 'List the versions of an endpoint',
    response: schemaOf({ releases: 'array' }),
  },
  'GET /v2/serverless/{id}/builds': {
    summary: 'List builds (always none)',
    response: schemaOf({ builds: 'array' }),
  },
  'GET /v2/serverless/{id}/builds/{buildId}': {
    summary: 'Read a build (always 404)',
    response: schemaOf({}),
  },
});

const workerRoutes: Record<string, RouteDoc> = byName({
  'GET /v2/{endpointId}/job-take/{workerId}': {
    summary: 'Take a job; 204 if there is none',
    isInternal: true,
    response: schemaOf({ id: 'string', input: 'any' }),
  },
  'GET /v2/{endpointId}/job-take-batch/{workerId}': {
    summary: 'Take several jobs; 204 if there is none',
    isInternal: true,
    query: ['batch_size'],
    response: listOf(schemaOf({ id: 'string', input: 'any' })),
  },
  'GET /v2/{endpointId}/job-stop/{workerId}': {
    summary: 'Wait for jobs to stop; 204 if there is none',
    isInternal: true,
    response: schemaOf({ jobsToStop: listOf('string') }),
  },
  'POST /v2/{endpointId}/job-done/{workerId}/{jobId}': {
    summary: 'Report the result of a job',
    isInternal: true,
    body: {},
    response: {},
  },
  'POST /v2/{endpointId}/job-stream/{workerId}/{jobId}': {
    summary: 'Add a chunk to the stream of a job',
    isInternal: true,
    body: {},
    response: {},
  },
  'GET /v2/{endpointId}/ping/{workerId}': { ...ping, response: {} },
  'POST /v2/{endpointId}/ping/{workerId}': { ...ping, response: {} },
  'POST /v2/hooks/{attemptId}': {
    summary: 'Receive a webhook of a remote job',
    isInternal: true,
    query: ['token'],
    response: schemaOf({}),
  },
});

const graphql: RouteDoc = {
  summary: 'Report that this server has no GraphQL API',
  isInternal: true,
  response: schemaOf({ data: 'any', errors: listOf(schemaOf({ message: 'string' })) }),
};

export const routeDocs: Readonly<Record<string, RouteDoc>> = byName({
  ...jobRoutes,
  ...batchRoutes,
  ...endpointRoutes,
  ...workerRoutes,
  'GET /graphql': graphql,
  'POST /graphql': { ...graphql, body: {} },
});
