// Where a server finds its store address, and what a former node does without one.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { tempFolder } from '../helpers/folder.ts';
import { startServer as startPostgres } from '../helpers/postgres-server.ts';
import { cli, startServer } from '../helpers/server.ts';

test('home/env may set the address; a former node without a store does not create a new one', async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres.kill());
  // The user name differs from the schema, and the address sets session options.
  const address = `${postgres.url}?options=-c%20work_mem%3D8MB`;
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'env'), `ERRAND_STORE=${address}\n`, { mode: 0o600 });
  assert.equal((await cli(home, ['migrate'])).code, 0);
  const node = await startServer(t, { home });
  assert.match(node.key, /^errand_[0-9a-f]{40}$/, 'the cluster key');
  assert.equal(await strayTables(postgres.url), 0);
  await node.stop();
  writeFileSync(join(home, 'env'), '', { mode: 0o600 });
  for (const args of [['serve', '--port', '0'], ['list']]) {
    const forgotten = await cli(home, args);
    assert.equal(forgotten.code, 7, forgotten.stderr);
    assert.match(forgotten.stderr, /is a cluster node[^]*ERRAND_STORE/);
  }
  assert.equal(existsSync(join(home, 'errand.sqlite')), false);
  const alone = await startServer(t, { home, args: ['--store', 'sqlite'] });
  await alone.stop();
  assert.equal((await cli(home, ['list', '--json'])).code, 0, 'it is a standalone server now');
});

/** Our tables that were created outside their schema. */
async function strayTables(url: string): Promise<number> {
  const client = new Client(url);
  await client.connect();
  const { rows } = await client.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM information_schema.tables WHERE table_schema = 'public'`,
  );
  await client.end();
  return rows[0]!.n;
}
