// A read-only view of a PostgreSQL store for `errand store check`: one repeatable-read transaction, even while nodes run.
import type { Client } from 'pg';
import type { Snapshot } from '../check.ts';
import { readPages } from '../tables.ts';
import type { Value } from '../store.ts';
import { bossSchema, connectionOptions, databaseError, loadPg, parseAddress } from './open.ts';
import { prepare } from './sql.ts';

export async function openPostgresSnapshot(
  url: string,
): Promise<Snapshot & { close(): Promise<void> }> {
  const address = parseAddress(url);
  const pg = await loadPg();
  const client = new pg.Client({ ...connectionOptions(pg, address), query_timeout: 0 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  } catch (error) {
    await client.end().catch(() => {});
    throw databaseError(error, address);
  }
  const read = async <T extends object>(sql: string, params: readonly Value[] = []) =>
    (await client.query({ text: prepare(sql).text, values: params as unknown[] })).rows as T[];
  const snapshot: Snapshot = {
    engine: 'postgres',
    read,
    rows: (table) => readPages(table, { engine: 'postgres', read }),
    verifyPages: () => verify(client, [address.schema, bossSchema(address.schema)]),
  };
  return { ...snapshot, close: () => client.end() };
}

/** The server verifies pages as it reads them, if it has checksums. The amcheck extension verifies indexes. */
async function verify(
  client: Client,
  schemas: readonly string[],
): Promise<{ problems: string[]; notes: string[] }> {
  const { rows } = await client.query<{ checksums: string; amcheck: boolean }>(
    `SELECT current_setting('data_checksums') AS checksums,
       EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck') AS amcheck`,
  );
  const { checksums, amcheck } = rows[0]!;
  const notes: string[] = [];
  if (checksums !== 'on')
    notes.push(
      'Pages were not verified: the database has no checksums (`pg_checksums --enable` adds them).',
    );
  if (!amcheck) notes.push('Indexes were not verified: the extension amcheck is not installed.');
  return { problems: amcheck ? await verifyIndexes(client, schemas) : [], notes };
}

async function verifyIndexes(client: Client, schemas: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_index i
     JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_am a ON a.oid = c.relam
     WHERE n.nspname = ANY($1::text[]) AND a.amname = 'btree' AND c.relkind = 'i' AND i.indisvalid`,
    [schemas],
  );
  const problems: string[] = [];
  for (const { name } of rows) {
    await client.query('SAVEPOINT one_index');
    try {
      await client.query('SELECT bt_index_check($1::regclass)', [name]);
    } catch (error) {
      problems.push(`${name}: ${(error as Error).message}`);
      await client.query('ROLLBACK TO one_index');
    }
  }
  return problems;
}
