// Tables of the command kind: past runs per command and reserved job names.
import type { Migration } from '../../store/store.ts';

export const commandMigrations: readonly Migration[] = [
  {
    id: 'command/1',
    statements: ({ int, strict }) => [
      `CREATE TABLE command_runs (
        attempt_id TEXT NOT NULL PRIMARY KEY,
        job_id TEXT NOT NULL,
        command_key TEXT NOT NULL,
        ended_at ${int} NOT NULL,
        run_ms ${int} NOT NULL,
        ok ${int} NOT NULL,
        bytes ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX command_runs_key ON command_runs (command_key, ended_at)',
      'CREATE INDEX command_runs_job ON command_runs (job_id)',
    ],
  },
  {
    id: 'command/2',
    statements: ({ strict }) => [
      // The latest job that `ensure` started under a name. It fences the next start on any node.
      `CREATE TABLE command_names (
        owner TEXT NOT NULL, name TEXT NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (owner, name)
      ) ${strict}`,
      'CREATE INDEX command_names_job ON command_names (job_id)',
    ],
  },
  {
    id: 'command/3',
    statements: ({ int }) => [
      `ALTER TABLE command_runs ADD COLUMN cancelled ${int} NOT NULL DEFAULT 0`,
    ],
  },
  {
    // Stored inputs of earlier versions have the old name of the field. A quote inside a JSON string is escaped, so the
    // search text matches only keys.
    id: 'command/4',
    statements: () => [
      `UPDATE jobs SET input = replace(input, '"outputBytesMax":', '"maxOutputBytes":')
        WHERE kind = 'command' AND input LIKE '%"outputBytesMax":%'`,
    ],
  },
];
