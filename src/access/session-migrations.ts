// The tables of dashboard sessions and login codes. Both contain hashes only.
import type { Migration } from '../store/store.ts';

export const sessionMigrations: Migration[] = [
  {
    id: 'sessions/1',
    statements: ({ int, strict }) => [
      // `grant_id` is the id of the key that created the session. For the owner it is a digest of the owner key, so that a
      // replaced owner key ends its sessions. `port` is where the server listened at the login.
      `CREATE TABLE sessions (
        id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, key_id TEXT, grant_id TEXT NOT NULL,
        scopes TEXT NOT NULL, client TEXT, port ${int}, created_at ${int} NOT NULL, seen_at ${int} NOT NULL,
        expires_at ${int} NOT NULL, revoked_at ${int}
      ) ${strict}`,
      'CREATE INDEX sessions_expiring ON sessions (expires_at)',
      `CREATE TABLE login_codes (
        hash TEXT PRIMARY KEY, scopes TEXT NOT NULL, expires_at ${int} NOT NULL
      ) ${strict}`,
    ],
  },
];
