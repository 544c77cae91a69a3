// The tables of the endpoint kind. Jobs themselves are in the core's ledger; here is what only endpoints have.
import type { Migration } from '../../store/store.ts';

export const endpointMigrations: Migration[] = [
  {
    id: 'endpoint/1',
    statements: ({ int, strict }) => [
      // `source`: `config` endpoints are written by config.json and leave with it.
      `CREATE TABLE endpoints (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, spec TEXT NOT NULL, version ${int} NOT NULL,
        source TEXT NOT NULL, created_at ${int} NOT NULL, updated_at ${int} NOT NULL
      ) ${strict}`,
      `CREATE TABLE endpoint_releases (
        endpoint_id TEXT NOT NULL, version ${int} NOT NULL, diff TEXT NOT NULL, made_by TEXT NOT NULL,
        created_at ${int} NOT NULL, PRIMARY KEY (endpoint_id, version)
      ) ${strict}`,
      // A row is there before its process can ask for work; pid and start are its identity.
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
      // RunPod's /stream hands every chunk out once: how far each job was drained.
      `CREATE TABLE endpoint_drains (
        job_id TEXT PRIMARY KEY, attempt ${int} NOT NULL, drained ${int} NOT NULL
      ) ${strict}`,
      `CREATE TABLE endpoint_batch_drafts (
        batch_id TEXT NOT NULL, n ${int} NOT NULL, job_id TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
        PRIMARY KEY (batch_id, n)
      ) ${strict}`,
      // Written before anything is sent: after a crash the remote is asked before anything is sent again.
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
      // Keys of retries: the same one never runs a job again a second time.
      `CREATE TABLE endpoint_retries (
        job_id TEXT NOT NULL, retry_key TEXT NOT NULL, created_at ${int} NOT NULL,
        PRIMARY KEY (job_id, retry_key)
      ) ${strict}`,
    ],
  },
  {
    // The remote it was sent to: its endpoint may point elsewhere by now.
    id: 'endpoint/3',
    statements: () => ['ALTER TABLE endpoint_remote_jobs ADD COLUMN remote TEXT'],
  },
];
