// Databases for tests on a real PostgreSQL server: the one at ERRAND_TEST_POSTGRES (scripts/test.ts starts one per run; its
// user must be allowed to create databases), or one that this process starts on first use. A database is copied from a
// migrated template and removed when the test file ends.
import { createHash, randomBytes } from 'node:crypto';
import { after, type TestContext } from 'node:test';
import { Client } from 'pg';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import type { Migration } from '../../src/store/store.ts';
import { startServer, type PostgresServer } from './postgres-server.ts';

/** PostgreSQL cannot copy one template twice concurrently, so all test processes use this lock. */
const copyLock = 7411;

let ownServer: Promise<PostgresServer> | undefined;
const created: string[] = [];
after(removeDatabases);

/** The address of a new, empty database. */
export function freshDatabase(): Promise<string> {
  return asAdmin((admin) => createDatabase(admin, randomName()));
}

/** The address of a new database in which these migrations are applied. */
export function migratedDatabase(migrations: readonly Migration[]): Promise<string> {
  return asAdmin(async (admin) =>
    createDatabase(admin, randomName(), await template(admin, migrations)),
  );
}

/** Queries a database that servers are using. */
export async function openReader(t: TestContext, url: string): Promise<PostgresStore> {
  const store = await PostgresStore.open(url);
  t.after(() => store.close());
  return store;
}

/** The first process that needs a template creates it; the others copy it. */
async function template(admin: Client, migrations: readonly Migration[]): Promise<string> {
  const source = migrations.map(({ id, statements }) => `${id} ${statements}`).join('\n');
  const name = `template_${createHash('sha1').update(source).digest('hex').slice(0, 16)}`;
  const known = await admin.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
  if (known.rowCount) return name;
  const unfinished = randomName();
  const store = await PostgresStore.open(await createDatabase(admin, unfinished));
  await store.applyMigrations(migrations);
  await store.close();
  await admin.query(`ALTER DATABASE ${unfinished} RENAME TO ${name}`);
  return name;
}

async function createDatabase(admin: Client, name: string, from = 'template1'): Promise<string> {
  await admin.query(`CREATE DATABASE ${name} TEMPLATE ${from} STRATEGY file_copy`);
  created.push(name);
  const url = new URL(await serverAddress());
  url.pathname = `/${name}`;
  return url.href;
}

async function removeDatabases(): Promise<void> {
  if (created.length === 0 || ownServer) return; // The own server is removed with its data.
  const admin = new Client(await serverAddress());
  await admin.connect();
  for (const name of created) await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  await admin.end();
}

async function asAdmin<T>(run: (admin: Client) => Promise<T>): Promise<T> {
  const admin = new Client(await serverAddress());
  await admin.connect();
  try {
    await admin.query('SELECT pg_advisory_lock($1)', [copyLock]);
    return await run(admin);
  } finally {
    await admin.end();
  }
}

async function serverAddress(): Promise<string> {
  if (process.env.ERRAND_TEST_POSTGRES) return process.env.ERRAND_TEST_POSTGRES;
  ownServer ??= startServer();
  return (await ownServer).url;
}

function randomName(): string {
  return `t_${randomBytes(6).toString('hex')}`;
}
