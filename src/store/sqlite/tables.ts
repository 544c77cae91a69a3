// Migrations of the embedded dispatcher. A claim reads one partial index in order, so it costs the same with a thousand
// waiting attempts as with a million. Delayed entries are promoted when due instead of being filtered by every claim.
import type { Migration } from '../store.ts';

export const sqliteMigrations: Migration[] = [
  {
    id: 'dispatch/1',
    statements: () => [
      `CREATE TABLE dispatch (
        seq INTEGER PRIMARY KEY,
        attempt_id TEXT NOT NULL UNIQUE,
        job_id TEXT NOT NULL,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        run_at INTEGER NOT NULL,
        state INTEGER NOT NULL,
        lease_until INTEGER,
        holder TEXT
      ) STRICT`,
      'CREATE INDEX dispatch_ready ON dispatch (queue, priority DESC, seq) WHERE state = 0',
      'CREATE INDEX dispatch_scheduled ON dispatch (run_at) WHERE state = 1',
      'CREATE INDEX dispatch_leased ON dispatch (queue, lease_until) WHERE state = 2',
      `CREATE TABLE counters (scope TEXT NOT NULL, key TEXT NOT NULL, n INTEGER NOT NULL,
        PRIMARY KEY (scope, key)) STRICT, WITHOUT ROWID`,
    ],
  },
  {
    // One row: the ledger id and its number of commits. The home records both (ledger-mark.ts).
    id: 'dispatch/2',
    statements: () => [
      `CREATE TABLE ledger (id INTEGER PRIMARY KEY CHECK (id = 1), ledger TEXT NOT NULL,
        commits INTEGER NOT NULL, state TEXT NOT NULL) STRICT`,
      `INSERT INTO ledger (id, ledger, commits, state) VALUES (1, lower(hex(randomblob(16))), 0, 'ready')`,
    ],
  },
];
