// Cluster migrations: `errand migrate` (or a test) applies each once under an advisory lock. A server start only checks.
import type { ClientBase } from 'pg';
import { AppError } from '../../errors.ts';
import { rejectNewer } from '../migrations.ts';
import { postgresDdl, type Migration } from '../store.ts';
import { bossSchema, loadBoss, type Address } from './open.ts';
import { clusterMigrations } from './tables.ts';

/** Any number that no other program uses. Concurrent `errand migrate` runs wait for each other. */
const lockId = 7_411_001;

export async function migratePostgres(
  client: ClientBase,
  address: Address,
  migrations: readonly Migration[],
): Promise<string[]> {
  const done: string[] = [];
  await client.query('SET lock_timeout = 0');
  // The lock is released with the connection, which nothing else uses.
  await client.query('SELECT pg_advisory_lock($1, hashtext($2))', [lockId, address.schema]);
  await client.query(`CREATE SCHEMA IF NOT EXISTS ${address.schema}`);
  await client.query(
    'CREATE TABLE IF NOT EXISTS migrations (id TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)',
  );
  const all = [...clusterMigrations, ...migrations];
  const applied = await appliedIds(client);
  rejectNewer(applied, all);
  await migrateBoss(client, address);
  for (const migration of all) {
    if (applied.has(migration.id)) continue;
    await applyOne(client, migration);
    done.push(migration.id);
  }
  return done;
}

/** Used at server start: changes nothing, and rejects a schema that needs migrations. */
export async function checkPostgres(
  client: ClientBase,
  address: Address,
  migrations: readonly Migration[],
): Promise<void> {
  const { rows } = await client.query<{ ledger: string | null; boss: string | null }>(
    'SELECT to_regclass($1) AS ledger, to_regclass($2) AS boss',
    [`${address.schema}.migrations`, `${bossSchema(address.schema)}.version`],
  );
  const all = [...clusterMigrations, ...migrations];
  const applied = rows[0]!.ledger && rows[0]!.boss ? await appliedIds(client) : new Set<string>();
  rejectNewer(applied, all);
  const open = all.filter(({ id }) => !applied.has(id)).map(({ id }) => id);
  if (open.length === 0) return requirePrivileges(client, address);
  const what =
    applied.size === 0
      ? 'contains no Errand tables yet'
      : `lacks the migrations ${open.join(', ')}`;
  throw new AppError('unavailable', `Schema ${address.schema} at ${address.label} ${what}.`, {
    hint: 'Run `errand migrate --store <address>` once, then start the nodes.',
  });
}

/** Requires full access to every table: a node that can read but not claim would look alive and do nothing. */
async function requirePrivileges(client: ClientBase, address: Address): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT format('%s.%s', n.nspname, c.relname) AS name
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ANY($1::text[]) AND c.relkind IN ('r', 'p') AND NOT (
       has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
       AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
     ORDER BY 1 LIMIT 3`,
    [[address.schema, bossSchema(address.schema)]],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ name }) => name).join(', ');
  throw new AppError(
    'unavailable',
    `The database user lacks privileges on ${names} at ${address.label}.`,
    {
      hint: `Grant it all privileges on the tables in ${address.schema} and ${bossSchema(address.schema)}, or use the user that ran \`errand migrate\`.`,
    },
  );
}

async function appliedIds(client: ClientBase): Promise<Set<string>> {
  const { rows } = await client.query<{ id: string }>('SELECT id FROM migrations');
  return new Set(rows.map(({ id }) => id));
}

async function applyOne(client: ClientBase, migration: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    // Give up on a table that running nodes keep locked. Otherwise their statements would queue up behind this one.
    await client.query(`SET LOCAL lock_timeout = '5s'`);
    for (const statement of migration.statements(postgresDdl)) await client.query(statement);
    await client.query(
      'INSERT INTO migrations (id, applied_at) VALUES ($1, (extract(epoch FROM now()) * 1000)::bigint)',
      [migration.id],
    );
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

async function migrateBoss(client: ClientBase, address: Address): Promise<void> {
  const Boss = await loadBoss();
  const boss = new Boss({
    db: { executeSql: (text, values) => client.query(text, values) },
    schema: bossSchema(address.schema),
    migrate: true,
    supervise: false,
    schedule: false,
    registerInstance: false,
  });
  await boss.start();
  await boss.stop({ graceful: false, close: false });
}
