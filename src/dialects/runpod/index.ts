// The RunPod dialect: its HTTP routes (data, worker and control plane) and its MCP tools over our operations.
import type { Dialect } from '../../dialect.ts';
import { dataPlane } from './data-plane.ts';
import { workerPlane } from './worker-plane.ts';

export const runpodDialect: Dialect = {
  name: 'runpod',
  routes: [...dataPlane, ...workerPlane],
};
