// Every store that a contract suite must pass on. A factory returns a new, migrated store and cleans up after the test.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { accessMigrations } from '../../src/access/keys.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { webhookMigrations } from '../../src/webhooks/rows.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import type { Migration, Store } from '../../src/store/store.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { tempFolder } from './folder.ts';
import { migratedDatabase } from './postgres.ts';

export interface StoreFactory {
  name: string;
  open(t: TestContext, migrations?: readonly Migration[]): Promise<Store>;
}

export const stores: StoreFactory[] = [
  {
    name: 'sqlite',
    open: async (t, migrations = []) => {
      const store = new SqliteStore(join(tempFolder(t), 'errand.sqlite'));
      t.after(() => store.close());
      await store.migrate([
        ...jobMigrations,
        ...accessMigrations,
        ...webhookMigrations,
        ...migrations,
      ]);
      return store;
    },
  },
  {
    name: 'postgres',
    open: async (t, migrations = []) => {
      const all = [...jobMigrations, ...accessMigrations, ...webhookMigrations, ...migrations];
      const store = await PostgresStore.open(await migratedDatabase(all));
      t.after(() => store.close());
      await store.check(all);
      return store;
    },
  },
];
