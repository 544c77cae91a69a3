// The RunPod dialect: its HTTP routes (data, worker and control plane) and its MCP tools over our operations.
import type { Dialect, DialectResponse } from '../../dialect.ts';
import { batchPlane } from './batch-plane.ts';
import { catalogueTools } from './catalogue-tools.ts';
import { controlPlane } from './control-plane.ts';
import { dataPlane } from './data-plane.ts';
import { endpointTools } from './endpoint-tools.ts';
import { openaiError, openaiRoutes } from './openai.ts';
import { jobTools } from './tools.ts';
import { errorAnswer, problemAnswer } from './words.ts';
import { workerPlane } from './worker-plane.ts';

export const runpodDialect: Dialect = {
  name: 'runpod',
  tools: [...jobTools, ...endpointTools, ...catalogueTools],
  instructions:
    'Serverless endpoints with the tools of the RunPod MCP server, served by this machine. Read, then change, then read again: a cancel is certain once get-job-status says CANCELLED. A job that stays IN_QUEUE comes with a hint; stream-worker-logs shows why workers die. Diagnosing needs no new jobs.',
  routes: [...dataPlane, ...batchPlane, ...workerPlane, ...controlPlane, ...openaiRoutes],
  errors: { prefix: '/v2', answer: (error, path) => formOf(path)(error) },
};

/** Each plane has a form of its own. */
function formOf(path: string): (error: unknown) => DialectResponse {
  if (/^\/v2\/serverless(\/|$)/.test(path)) return problemAnswer;
  if (/^\/v2\/[^/]+\/openai\//.test(path)) return openaiError;
  return errorAnswer;
}
