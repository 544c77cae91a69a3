// The RunPod dialect: its HTTP routes (data, worker and control plane) and its MCP tools over our operations.
import type { Dialect } from '../../dialect.ts';
import { batchPlane } from './batch-plane.ts';
import { catalogueTools } from './catalogue-tools.ts';
import { controlPlane } from './control-plane.ts';
import { dataPlane } from './data-plane.ts';
import { endpointTools } from './endpoint-tools.ts';
import { openaiRoutes } from './openai.ts';
import { jobTools } from './tools.ts';
import { workerPlane } from './worker-plane.ts';

export const runpodDialect: Dialect = {
  name: 'runpod',
  tools: [...jobTools, ...endpointTools, ...catalogueTools],
  instructions:
    'Serverless endpoints with the tools of the RunPod MCP server, served by this machine. Read, then change, then read again: a cancel is certain once get-job-status says CANCELLED. A job that stays IN_QUEUE comes with a hint; stream-worker-logs shows why workers die. Diagnosing needs no new jobs.',
  routes: [...dataPlane, ...batchPlane, ...workerPlane, ...controlPlane, ...openaiRoutes],
};
