// Where a server finds the address of its store, and what a home does that was a node and finds none.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { tempFolder } from '../helpers/folder.ts';
import { startServer as startPostgres } from '../helpers/postgres.ts';
import { cli, startServer } from '../helpers/server.ts';

test('the address may stand in home/env; a node that is told no store does not begin one of its own', async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres.kill());
  // A user of another name than the schema, and settings of the session beside ours.
  const address = `${postgres.url}?options=-c%20work_mem%3D8MB`;
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'env'), `ERRAND_STORE=${address}\n`, { mode: 0o600 });
  assert.equal((await cli(home, ['migrate'])).code, 0);
  const node = await startServer(t, { home });
  assert.match(node.key, /^errand_[0-9a-f]{40}$/, 'the key of the cluster');
  assert.equal(await strayTables(postgres.url), 0);
  await node.stop();
  writeFileSync(join(home, 'env'), '', { mode: 0o600 });
  for (const words of [['serve', '--port', '0'], ['list']]) {
    const forgotten = await cli(home, words);
    assert.equal(forgotten.code, 7, forgotten.stderr);
    assert.match(forgotten.stderr, /is a node of a cluster[^]*ERRAND_STORE/);
  }
  assert.equal(existsSync(join(home, 'errand.sqlite')), false);
  const alone = await startServer(t, { home, args: ['--store', 'sqlite'] });
  await alone.stop();
  assert.equal((await cli(home, ['list', '--json'])).code, 0, 'it stands alone from now on');
});

/** Tables of ours that landed outside their schema. */
async function strayTables(url: string): Promise<number> {
  const client = new Client(url);
  await client.connect();
  const { rows } = await client.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM information_schema.tables WHERE table_schema = 'public'`,
  );
  await client.end();
  return rows[0]!.n;
}
