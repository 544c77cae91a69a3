// Backup and restore as in docs/cluster.md: pg_dump while nodes run, then everything is lost, then a restore into an empty
// database from both dump formats. Uses the system's tools with a server of their version.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { clusterEnv } from '../helpers/cluster.ts';
import { tempFolder } from '../helpers/folder.ts';
import { startServer as startPostgres, systemBinaries } from '../helpers/postgres-server.ts';
import { cli, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Shown {
  id: string;
  status: string;
  exitCode?: number | null;
}

const run = async (node: TestServer, body: Record<string, unknown>): Promise<Shown> => {
  const result = await node.api('POST', '/api/commands', { cwd: '/', waitMs: 0, ...body });
  assert.equal(result.status, 200, result.text);
  return result.json<Shown>();
};
const show = async (node: TestServer, id: string) =>
  (await node.api('GET', `/api/jobs/${id}`)).json<Shown>();

test('a dump of a running cluster is restored after everything was lost', async (t) => {
  const bin = systemBinaries();
  if (!bin) return t.skip('no pg_dump of PostgreSQL 15 or newer is installed here');
  const postgres = await startPostgres({}, bin);
  t.after(() => postgres.kill());
  const tool = (name: string, ...args: string[]) => execFileSync(join(bin, name), args);
  const at = (database: string) => new URL(`/${database}`, postgres.url).href;
  const folder = tempFolder(t);
  const home = join(folder, 'home');
  // The restore takes long enough for short leases to expire.
  const env = { ...clusterEnv, ERRAND_LEASE_MS: '60000', ERRAND_CLUSTER_KEY: 'one' };
  tool('createdb', '--maintenance-db', at('postgres'), 'first');
  const migrated = await cli(home, ['migrate'], { ERRAND_STORE: at('first') });
  assert.equal(migrated.code, 0, migrated.stderr);
  const before = await startServer(t, { home, env: { ...env, ERRAND_STORE: at('first') } });
  const done = await run(before, { command: 'echo done; exit 3', waitMs: 20_000 });
  assert.equal(done.exitCode, 3);
  const later = await run(before, {
    command: 'true',
    runAt: new Date(Date.now() + 3_600_000).toISOString(),
  });
  const waiting = await run(before, { command: 'echo waited', labels: ['gpu'] });
  const go = join(folder, 'go');
  const running = await run(before, { command: `until [ -e ${go} ]; do sleep 0.1; done; exit 9` });
  await until('it runs', async () => (await show(before, running.id)).status === 'running');

  const archive = join(folder, 'errand.dump');
  tool('pg_dump', '-Fc', '-n', 'errand', '-n', 'errand_boss', '-f', archive, at('first'));
  const script = join(folder, 'errand.sql');
  tool('pg_dump', '-n', 'errand', '-n', 'errand_boss', '-f', script, at('first'));
  // What happened after the dump is lost with the database, but not what a node has on its disk.
  const after = await run(before, { command: 'true', waitMs: 20_000 });
  await before.kill();
  execFileSync('touch', [go]);
  const client = new Client(at('postgres'));
  await client.connect();
  await client.query('DROP DATABASE first WITH (FORCE)');
  await client.query('CREATE DATABASE second');
  await client.query('CREATE DATABASE third');
  await client.end();
  tool('pg_restore', '--exit-on-error', '-d', at('second'), archive);
  tool('psql', '-q', '-v', 'ON_ERROR_STOP=1', '-d', at('third'), '-f', script);

  const node = await startServer(t, {
    home,
    env: { ...env, ERRAND_STORE: at('second'), ERRAND_LABELS: 'gpu' },
  });
  assert.equal(node.key, before.key, 'keys are in the database');
  const ended = await until('the running job is adopted with its true outcome', async () => {
    const job = await show(node, running.id);
    return job.status === 'failed' ? job : undefined;
  });
  assert.equal(ended.exitCode, 9);
  await until(
    'the waiting job runs',
    async () => (await show(node, waiting.id)).status === 'completed',
  );
  assert.equal((await show(node, later.id)).status, 'queued');
  const output = await node.api('GET', `/api/jobs/${done.id}/output`);
  assert.match(output.text, /done/);
  assert.equal((await node.api('GET', `/api/jobs/${after.id}`)).status, 404);
  const fresh = await run(node, { command: 'true', waitMs: 20_000 });
  assert.equal(fresh.status, 'completed', 'sequences continue');
  await node.stop();

  const other = await startServer(t, {
    home: join(folder, 'other'),
    env: { ...env, ERRAND_STORE: at('third') },
  });
  assert.equal((await show(other, done.id)).exitCode, 3);
  const here = await run(other, { command: 'true', waitMs: 20_000 });
  assert.equal(here.status, 'completed');
});
