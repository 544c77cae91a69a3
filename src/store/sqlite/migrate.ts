// Applies each migration once, in order, and rejects a database that a newer version has migrated.
import type { DatabaseSync } from 'node:sqlite';
import { rejectNewer } from '../migrations.ts';
import { sqliteDdl, type Migration } from '../store.ts';
import { sqliteMigrations } from './tables.ts';

export function migrateSqlite(db: DatabaseSync, migrations: readonly Migration[]): void {
  db.exec(
    'CREATE TABLE IF NOT EXISTS migrations (id TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT',
  );
  const rows = db.prepare('SELECT id FROM migrations').all() as { id: string }[];
  const applied = new Set(rows.map(({ id }) => id));
  const all = [...sqliteMigrations, ...migrations];
  rejectNewer(applied, all);
  for (const migration of all) {
    if (applied.has(migration.id)) continue;
    db.exec('BEGIN IMMEDIATE');
    try {
      for (const statement of migration.statements(sqliteDdl)) db.exec(statement);
      db.prepare('INSERT INTO migrations (id, applied_at) VALUES (?, unixepoch() * 1000)').run(
        migration.id,
      );
      db.exec('COMMIT');
    } catch (error) {
      db.exec('ROLLBACK');
      throw error;
    }
  }
}
