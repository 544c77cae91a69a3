// The RunPod dialect: its HTTP routes (data, worker and control plane) and MCP tools, translated to our operations.
import type { Dialect, DialectResponse } from '../../dialect.ts';
import { batchPlane } from './batch-plane.ts';
import { catalogueTools } from './catalogue-tools.ts';
import { graphqlRoutes, isControlPlane } from './cloud-only.ts';
import { controlPlane } from './control-plane.ts';
import { dataPlane } from './data-plane.ts';
import { endpointTools } from './endpoint-tools.ts';
import { openaiError, openaiRoutes } from './openai.ts';
import { jobTools } from './tools.ts';
import { errorResponse, problemResponse } from './translate.ts';
import { workerPlane } from './worker-plane.ts';
import { routeDocs } from './route-docs.ts';
import { endpointWebhook } from './webhooks.ts';

export const runpodDialect: Dialect = {
  name: 'runpod',
  webhooks: [endpointWebhook],
  tools: [...jobTools, ...endpointTools, ...catalogueTools],
  instructions:
    'Serverless endpoints with the tools of the RunPod MCP server, served by this machine. Read, then change, then read again: a cancel is confirmed when get-job-status returns CANCELLED. A job that stays IN_QUEUE comes with a hint; stream-worker-logs shows why workers die. Diagnosing needs no new jobs.',
  routeDocs,
  routes: [
    ...dataPlane,
    ...batchPlane,
    ...workerPlane,
    ...controlPlane,
    ...openaiRoutes,
    ...graphqlRoutes,
  ],
  errors: { prefix: '/v2', toResponse: (error, path) => formOf(path)(error) },
};

/** Each plane has its own error format. */
function formOf(path: string): (error: unknown) => DialectResponse {
  if (isControlPlane(path)) return problemResponse;
  if (/^\/v2\/[^/]+\/openai\//.test(path)) return openaiError;
  return errorResponse;
}
