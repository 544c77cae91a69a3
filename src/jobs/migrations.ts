// The ledger tables, identical in both databases.
import type { Migration } from '../store/store.ts';
import { brokenSql, openSql } from './job.ts';

export const jobMigrations: Migration[] = [
  {
    id: 'jobs/1',
    statements: ({ int, serial, strict }) => [
      // `seq` is the submission order and the list cursor, so paging needs no index on times.
      `CREATE TABLE jobs (
        seq ${serial},
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL, action TEXT, queue TEXT NOT NULL, status TEXT NOT NULL, stage TEXT,
        name TEXT, tags TEXT, visibility TEXT NOT NULL, owner TEXT NOT NULL, node TEXT, parent_id TEXT,
        idempotency_key TEXT, idempotency_hash TEXT,
        input TEXT, result TEXT, error TEXT, progress TEXT, facts TEXT, cost ${int},
        priority ${int} NOT NULL, attempt ${int} NOT NULL, attempt_id TEXT NOT NULL, lost ${int} NOT NULL,
        retry TEXT, holder TEXT, run_at ${int} NOT NULL, expires_at ${int}, timeout_ms ${int},
        deadline_at ${int}, waiting_for ${int} NOT NULL, cancel_requested_at ${int},
        created_at ${int} NOT NULL, updated_at ${int} NOT NULL, started_at ${int}, finished_at ${int},
        pinned ${int} NOT NULL, version ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX jobs_owner ON jobs (owner, seq)',
      `CREATE UNIQUE INDEX jobs_idempotency ON jobs (owner, idempotency_key)
        WHERE idempotency_key IS NOT NULL`,
      'CREATE INDEX jobs_parent ON jobs (parent_id, seq) WHERE parent_id IS NOT NULL',
      // The common statuses (queued, completed) are not indexed, because every job would pay for an index entry. SQLite
      // uses a partial index only if the query contains exactly this condition.
      `CREATE INDEX jobs_open ON jobs (seq) WHERE ${openSql}`,
      `CREATE INDEX jobs_broken ON jobs (seq) WHERE ${brokenSql}`,
      `CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE status = 'queued' AND expires_at IS NOT NULL`,
      `CREATE INDEX jobs_waiting ON jobs (seq) WHERE waiting_for > 0`,
      `CREATE INDEX jobs_named ON jobs (owner, name, seq) WHERE name IS NOT NULL`,
      // Earlier attempts. The job row contains the current attempt.
      `CREATE TABLE attempts (
        job_id TEXT NOT NULL, attempt ${int} NOT NULL, attempt_id TEXT NOT NULL, status TEXT NOT NULL,
        holder TEXT, error TEXT, result TEXT, facts TEXT, started_at ${int}, finished_at ${int},
        PRIMARY KEY (job_id, attempt)
      ) ${strict}`,
      `CREATE TABLE events (
        cursor ${serial},
        job_id TEXT NOT NULL, n ${int} NOT NULL, type TEXT NOT NULL, at ${int} NOT NULL, data TEXT NOT NULL,
        UNIQUE (job_id, n)
      ) ${strict}`,
      `CREATE TABLE dependencies (
        after_id TEXT NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (after_id, job_id)
      ) ${strict}`,
      'CREATE INDEX dependencies_job ON dependencies (job_id)',
      `CREATE TABLE queues (
        kind TEXT NOT NULL, name TEXT NOT NULL, concurrency_max ${int}, paused ${int} NOT NULL,
        created_at ${int} NOT NULL, PRIMARY KEY (kind, name)
      ) ${strict}`,
    ],
  },
  {
    id: 'jobs/2',
    statements: () => ['ALTER TABLE jobs ADD COLUMN labels TEXT'],
  },
  {
    // AUTOINCREMENT writes a second table for every event. Keeping the newest event has the same effect without it.
    id: 'jobs/3',
    statements: ({ engine }) =>
      engine === 'postgres'
        ? []
        : [
            `CREATE TABLE events_numbered (
              cursor INTEGER PRIMARY KEY,
              job_id TEXT NOT NULL, n INTEGER NOT NULL, type TEXT NOT NULL, at INTEGER NOT NULL, data TEXT NOT NULL,
              UNIQUE (job_id, n)
            ) STRICT`,
            'INSERT INTO events_numbered SELECT cursor, job_id, n, type, at, data FROM events',
            `INSERT INTO events_numbered SELECT seq, '', seq, 'forgotten', 0, '{}' FROM sqlite_sequence
              WHERE name = 'events' AND seq > (SELECT coalesce(max(cursor), 0) FROM events)`,
            'DROP TABLE events',
            'ALTER TABLE events_numbered RENAME TO events',
          ],
  },
  {
    id: 'jobs/4',
    statements: () => ['ALTER TABLE jobs ADD COLUMN trace TEXT'],
  },
  {
    // The node of an attempt, because its holder may be a worker. Earlier rows have none; for commands it equals the holder.
    id: 'jobs/5',
    statements: () => ['ALTER TABLE attempts ADD COLUMN node TEXT'],
  },
  {
    id: 'jobs/6',
    statements: ({ int }) => [
      `ALTER TABLE jobs ADD COLUMN ttl_ms ${int}`,
      // Exact except for jobs that were retried manually: the time of the retry is not stored.
      'UPDATE jobs SET ttl_ms = expires_at - created_at WHERE expires_at IS NOT NULL',
    ],
  },
  {
    // Initializes the counters per owner. The scope has the format of counterScope and partScope.
    id: 'jobs/7',
    statements: () => [
      `INSERT INTO counters (scope, key, n)
        SELECT 'queue:' || kind || ':' || queue || '/' || owner, status, count(*) FROM jobs
        GROUP BY kind, queue, owner, status`,
    ],
  },
  {
    // Initializes the retry counters from the events. The scope has the format of retryScope.
    id: 'jobs/8',
    statements: () => [
      `DELETE FROM counters WHERE scope LIKE 'endpoint:%' AND key = 'retried'`,
      `INSERT INTO counters (scope, key, n)
        SELECT 'retries:' || j.kind || ':' || j.queue, 'retried', count(*)
        FROM events e JOIN jobs j ON j.id = e.job_id
        WHERE e.type IN ('attemptFailed', 'attemptLost', 'retried') GROUP BY j.kind, j.queue`,
    ],
  },
  {
    // Stored retry policies of earlier versions have the old field names.
    id: 'jobs/9',
    statements: () => [
      `UPDATE jobs SET retry = replace(replace(replace(retry,
          '"attemptsMax":', '"maxAttempts":'),
          '"backoffMsMax":', '"maxBackoffMs":'),
          '"lostMax":', '"maxLost":')
        WHERE retry LIKE '%Max":%'`,
    ],
  },
  {
    // Events spell statuses the way statuses do.
    id: 'jobs/10',
    statements: () => [
      `UPDATE events SET type = 'timed_out' WHERE type = 'timedOut'`,
      `UPDATE events SET type = 'input_required' WHERE type = 'inputRequired'`,
    ],
  },
  {
    // Finds the events that report deleted jobs, which are removed after a while.
    id: 'jobs/11',
    statements: () => [`CREATE INDEX events_deleted ON events (at) WHERE type = 'deleted'`],
  },
];
