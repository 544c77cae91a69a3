// Several real servers on one database: a cluster on this machine.
import type { TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { startServer, type ServerWish, type TestServer } from './server.ts';
import { migratedDatabase } from './postgres.ts';

export interface TestCluster {
  url: string;
  nodes: TestServer[];
  /** One more node, or one of before on its old home. */
  add(wish?: ServerWish): Promise<TestServer>;
}

/** Short leases, so that losses are noticed within a test's patience. */
export const clusterEnv = { ERRAND_LEASE_MS: '3000', ERRAND_SWEEP_MS: '200' };

export async function startCluster(
  t: TestContext,
  count: number,
  wish: ServerWish = {},
): Promise<TestCluster> {
  const url = await migratedDatabase(allMigrations());
  const add = (more: ServerWish = {}) =>
    startServer(t, {
      ...wish,
      ...more,
      env: { ...clusterEnv, ERRAND_STORE: url, ...wish.env, ...more.env },
    });
  const nodes = await Promise.all(Array.from({ length: count }, () => add()));
  return { url, nodes, add };
}
