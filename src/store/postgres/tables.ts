// Migrations of the cluster store. They add what pg-boss does not provide: leases of any length by the ledger's clock,
// delayed entries, and counters as deltas.
import type { Migration } from '../store.ts';

export const clusterMigrations: Migration[] = [
  {
    id: 'cluster/1',
    statements: () => [
      // Updated with every heartbeat: free space on each page keeps these updates out of the indexes.
      `CREATE TABLE leases (
        attempt_id TEXT PRIMARY KEY, job_id TEXT NOT NULL, queue TEXT NOT NULL,
        holder TEXT NOT NULL, lease_until BIGINT NOT NULL
      ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200)`,
      'CREATE INDEX leases_queue ON leases (queue)',
      `CREATE TABLE scheduled (
        attempt_id TEXT PRIMARY KEY, job_id TEXT NOT NULL, queue TEXT NOT NULL,
        priority BIGINT NOT NULL, run_at BIGINT NOT NULL
      ) WITH (autovacuum_vacuum_scale_factor = 0.05)`,
      'CREATE INDEX scheduled_due ON scheduled (run_at)',
      'CREATE TABLE counters (scope TEXT, key TEXT, n BIGINT NOT NULL, PRIMARY KEY (scope, key))',
      // Avoids hot rows: every commit appends its changes, and the sweep folds them into the counters.
      `CREATE TABLE counter_deltas (scope TEXT NOT NULL, key TEXT NOT NULL, n BIGINT NOT NULL)
        WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)`,
      'CREATE INDEX counter_deltas_scope ON counter_deltas (scope)',
      // One row: when a node last swept. After a gap no holder could extend its lease, so none is declared lost.
      'CREATE TABLE sweeps (id BIGINT PRIMARY KEY CHECK (id = 1), at BIGINT NOT NULL)',
      // One row: the cluster that owns this schema, with a fingerprint of the key that its nodes share.
      `CREATE TABLE cluster (id BIGINT PRIMARY KEY CHECK (id = 1),
        name TEXT NOT NULL, secret TEXT, fingerprint TEXT NOT NULL)`,
    ],
  },
  {
    // One row: the ledger id. Nodes record it in their homes.
    id: 'cluster/2',
    statements: () => [
      `CREATE TABLE ledger (id BIGINT PRIMARY KEY CHECK (id = 1), ledger TEXT NOT NULL, state TEXT NOT NULL)`,
      `INSERT INTO ledger (id, ledger, state) VALUES (1, replace(gen_random_uuid()::text, '-', ''), 'ready')`,
    ],
  },
  {
    // Statistics are read by ranges of their scopes, whose order must be that of their bytes.
    id: 'cluster/3',
    statements: () => [`CREATE INDEX counters_scope ON counters (scope COLLATE "C")`],
  },
];
