// The tables of the endpoint kind. Jobs are stored in the core's ledger.
import type { Migration } from '../../store/store.ts';

export const endpointMigrations: Migration[] = [
  {
    id: 'endpoint/1',
    statements: ({ int, strict }) => [
      // `source`: config.json creates `config` endpoints, and removes them when it no longer contains them.
      `CREATE TABLE endpoints (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, spec TEXT NOT NULL, version ${int} NOT NULL,
        source TEXT NOT NULL, created_at ${int} NOT NULL, updated_at ${int} NOT NULL
      ) ${strict}`,
      `CREATE TABLE endpoint_releases (
        endpoint_id TEXT NOT NULL, version ${int} NOT NULL, diff TEXT NOT NULL, made_by TEXT NOT NULL,
        created_at ${int} NOT NULL, PRIMARY KEY (endpoint_id, version)
      ) ${strict}`,
      // A row exists before its process can poll for work. pid and start time identify the process.
      `CREATE TABLE endpoint_workers (
        id TEXT NOT NULL, endpoint_id TEXT NOT NULL, node TEXT, version ${int} NOT NULL,
        origin TEXT NOT NULL, pid ${int}, process_start TEXT, key_id TEXT, state TEXT NOT NULL,
        reason TEXT, created_at ${int} NOT NULL, ready_at ${int}, seen_at ${int}, ended_at ${int},
        exit_code ${int}, exit_signal TEXT, PRIMARY KEY (endpoint_id, id)
      ) ${strict}`,
      `CREATE INDEX endpoint_workers_live ON endpoint_workers (endpoint_id, created_at)
        WHERE ended_at IS NULL`,
      'CREATE INDEX endpoint_workers_ended ON endpoint_workers (endpoint_id, ended_at)',
      `CREATE TABLE endpoint_chunks (
        job_id TEXT NOT NULL, attempt ${int} NOT NULL, n ${int} NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (job_id, attempt, n)
      ) ${strict}`,
      // RunPod's /stream returns every chunk once. This is the number of chunks returned so far.
      `CREATE TABLE endpoint_drains (
        job_id TEXT PRIMARY KEY, attempt ${int} NOT NULL, drained ${int} NOT NULL
      ) ${strict}`,
      `CREATE TABLE endpoint_batch_drafts (
        batch_id TEXT NOT NULL, n ${int} NOT NULL, job_id TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
        PRIMARY KEY (batch_id, n)
      ) ${strict}`,
      // Written before anything is sent. After a crash, the remote is queried before anything is sent again.
      `CREATE TABLE endpoint_remote_jobs (
        attempt_id TEXT PRIMARY KEY, job_id TEXT NOT NULL, endpoint_id TEXT NOT NULL, remote_id TEXT,
        state TEXT NOT NULL, tries ${int} NOT NULL, due_at ${int} NOT NULL, created_at ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX endpoint_remote_due ON endpoint_remote_jobs (due_at)',
    ],
  },
  {
    id: 'endpoint/2',
    statements: ({ int, strict }) => [
      // Retry keys: the same key never reruns a job twice.
      `CREATE TABLE endpoint_retries (
        job_id TEXT NOT NULL, retry_key TEXT NOT NULL, created_at ${int} NOT NULL,
        PRIMARY KEY (job_id, retry_key)
      ) ${strict}`,
    ],
  },
  {
    // The remote that received the job, because the endpoint may point elsewhere later.
    id: 'endpoint/3',
    statements: () => ['ALTER TABLE endpoint_remote_jobs ADD COLUMN remote TEXT'],
  },
  {
    // Bounds were called `workersMax` and are called `maxWorkers`. JSON.stringify writes no space before a colon, and a
    // quote inside a string is escaped, so this matches keys only.
    id: 'endpoint/4',
    statements: () =>
      [
        ['workersMin', 'minWorkers'],
        ['workersMax', 'maxWorkers'],
        ['outboxBytesMax', 'maxOutboxBytes'],
        ['queueMax', 'maxQueue'],
      ].flatMap(([before, after]) => [
        `UPDATE endpoints SET spec = replace(spec, '"${before}":', '"${after}":')
          WHERE spec LIKE '%"${before}":%'`,
        `UPDATE endpoint_releases SET diff = replace(diff, '"field":"${before}"', '"field":"${after}"')
          WHERE diff LIKE '%"field":"${before}"%'`,
      ]),
  },
  {
    // The format was named after the system whose body it has.
    id: 'endpoint/5',
    statements: () => [`UPDATE webhooks SET format = 'endpoint' WHERE format = 'runpod'`],
  },
];
