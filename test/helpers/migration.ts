// Runs one data migration again on a migrated store, after a test wrote rows as an earlier version stored them.
import assert from 'node:assert/strict';
import { postgresDdl, sqliteDdl, type Migration, type Store } from '../../src/store/store.ts';

export async function applyMigration(
  store: Store,
  migrations: readonly Migration[],
  id: string,
): Promise<void> {
  const migration = migrations.find((one) => one.id === id);
  assert.ok(migration, `migration ${id} does not exist`);
  const ddl = store.engine === 'postgres' ? postgresDdl : sqliteDdl;
  const { applied } = await store.commit(migration.statements(ddl).map((sql) => ({ sql })));
  assert.ok(applied);
}
