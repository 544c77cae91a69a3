// Several real servers on one database: a cluster on this machine.
import type { TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { startServer, type ServerOptions, type TestServer } from './server.ts';
import { migratedDatabase } from './postgres.ts';

export interface TestCluster {
  url: string;
  nodes: TestServer[];
  /** Adds a node, or restarts an earlier one on its home. */
  add(options?: ServerOptions): Promise<TestServer>;
}

/** Short leases, so that a test notices a lost node quickly. */
export const clusterEnv = { ERRAND_LEASE_MS: '3000', ERRAND_SWEEP_MS: '200' };

export async function startCluster(
  t: TestContext,
  count: number,
  options: ServerOptions = {},
): Promise<TestCluster> {
  const url = await migratedDatabase(allMigrations());
  const add = (more: ServerOptions = {}) =>
    startServer(t, {
      ...options,
      ...more,
      env: { ...clusterEnv, ERRAND_STORE: url, ...options.env, ...more.env },
    });
  const nodes = await Promise.all(Array.from({ length: count }, () => add()));
  return { url, nodes, add };
}
