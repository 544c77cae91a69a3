// Starts that cannot work, with the real program: each explains what is wrong and what to do, and leaves no process, lock
// or row behind. Then the races of a first start.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { parseAddress, rejectUnusableServer } from '../../src/store/postgres/open.ts';
import { tempFolder } from '../helpers/folder.ts';
import { freePort } from '../helpers/port.ts';
import { startServer as startPostgres } from '../helpers/postgres-server.ts';
import { cli, startServer } from '../helpers/server.ts';
import { startFakePostgres } from '../helpers/fake-postgres.ts';

/** The first server must stay alive for the others even if a busy machine delays its heartbeats. */
const leaseMs = '15000';

test('a server older than 15 and a standby are rejected by their own report', async (t) => {
  const address = parseAddress('postgres://u:secret@db/errand');
  const check = (version: number, shown: string) => () =>
    rejectUnusableServer({ version, release: shown, standby: false }, address);
  assert.throws(check(90_624, '9.6.24'), { hint: /15 or newer/ });
  for (const version of [150_000, 160_002, 180_004]) check(version, String(version))();
  const servers = [
    ['14.11', '140011', false, /PostgreSQL 14\.11 at \S+ is too old/],
    ['18.4', '180004', true, /read-only standby/],
  ] as const;
  for (const [shown, version, standby, message] of servers) {
    const fake = await startFakePostgres(t, shown, { version, release: shown, standby });
    const env = { ERRAND_STORE: `postgres://ada:secret@127.0.0.1:${fake.port}/errand` };
    for (const args of [['serve', '--port', '0'], ['migrate']]) {
      const home = join(tempFolder(t), 'home');
      const result = await cli(home, args, env);
      assert.equal(result.code, 7, result.stderr);
      assert.match(result.stderr, message);
      assert.doesNotMatch(result.stderr, /secret/);
      assert.equal(existsSync(join(home, 'server.pid')), false);
    }
    assert.equal(fake.queries.length, 2, 'one query per start');
  }
});

test('a failed start explains why and leaves nothing behind; the same homes start afterwards', async (t) => {
  const postgres = await startPostgres();
  const admin = new Client(postgres.url);
  await admin.connect();
  t.after(async () => {
    await admin.end();
    await postgres.kill();
  });
  const sql = async (...lines: string[]) => {
    for (const line of lines) await admin.query(line);
  };
  await sql(
    'CREATE DATABASE ready',
    'CREATE DATABASE empty',
    'CREATE DATABASE newer TEMPLATE template0',
    `CREATE ROLE locked LOGIN PASSWORD 'right'`,
    'CREATE ROLE visitor LOGIN',
    'CREATE ROLE reader LOGIN IN ROLE pg_read_all_data',
    'CREATE DATABASE other TEMPLATE template0',
  );
  const hba = join(postgres.data, 'pg_hba.conf');
  const rules = readFileSync(hba, 'utf8');
  writeFileSync(hba, `host all locked 127.0.0.1/32 scram-sha-256\n${rules}`);
  await sql('SELECT pg_reload_conf()');
  const at = (database: string, user = 'postgres', password = '') => {
    const url = new URL(postgres.url);
    url.pathname = `/${database}`;
    url.username = user;
    url.password = password;
    return url.href;
  };
  const homeOf = () => join(tempFolder(t), 'home');
  for (const name of ['ready', 'newer', 'other']) {
    const migrated = await cli(homeOf(), ['migrate', '--store', at(name)]);
    assert.equal(migrated.code, 0, migrated.stderr);
  }
  const change = async (database: string, line: string) => {
    const client = new Client(at(database));
    await client.connect();
    await client.query(line);
    await client.end();
  };
  await change('newer', `INSERT INTO errand.migrations (id, applied_at) VALUES ('jobs/99', 0)`);
  await change('other', 'UPDATE errand_boss.version SET version = version + 1');
  const first = await startServer(t, {
    env: { ERRAND_STORE: at('ready'), ERRAND_CLUSTER_KEY: 'one', ERRAND_LEASE_MS: leaseMs },
  });

  const nobody = `postgres://x@127.0.0.1:${await freePort()}/x`;
  const key = { ERRAND_CLUSTER_KEY: 'one' };
  const twin = homeOf();
  mkdirSync(twin, { mode: 0o700 });
  copyFileSync(join(first.home, 'node.id'), join(twin, 'node.id'));
  const cases: [name: string, env: Record<string, string>, message: RegExp, home?: string][] = [
    ['unreachable', { ERRAND_STORE: nobody }, /Cannot reach the database/],
    ['no such database', { ERRAND_STORE: at('nowhere') }, /Database \S+ does not exist/],
    [
      'not migrated',
      { ERRAND_STORE: at('empty') },
      /contains no Errand tables yet[^]*errand migrate/,
    ],
    ['wrong password', { ERRAND_STORE: at('ready', 'locked', 'wrong') }, /rejected the user or/],
    ['missing privileges', { ERRAND_STORE: at('ready', 'visitor'), ...key }, /lacks privileges/],
    [
      'read-only privileges',
      { ERRAND_STORE: at('ready', 'reader'), ...key },
      /privileges on errand\./,
    ],
    ['another pg-boss version', { ERRAND_STORE: at('other') }, /pg-boss tables/],
    ['newer schema', { ERRAND_STORE: at('newer') }, /newer version of Errand/],
    [
      'another cluster',
      { ERRAND_STORE: at('ready'), ...key, ERRAND_CLUSTER: 'other' },
      /belongs to/,
    ],
    [
      'wrong key',
      { ERRAND_STORE: at('ready'), ERRAND_CLUSTER_KEY: 'two' },
      /different cluster key/,
    ],
    ['no key', { ERRAND_STORE: at('ready') }, /requires a cluster key/],
    ['two nodes with one id', { ERRAND_STORE: at('ready'), ...key }, /is running/, twin],
    ['another kind of store', { ERRAND_STORE: 'mysql://x:secret@h/x' }, /must be postgres/],
    ['an empty address', { ERRAND_STORE: '' }, /must be postgres/],
    [
      'no TLS on the server',
      { ERRAND_STORE: `${at('ready')}?sslmode=verify-full` },
      /Cannot encrypt the conn/,
    ],
    ['not an address', { ERRAND_STORE: 'postgres://[' }, /not a postgres:\/\/ URL/],
  ];
  const rows = async () => {
    const client = new Client(at('ready'));
    await client.connect();
    const { rows: found } = await client.query('SELECT id FROM errand.nodes');
    await client.end();
    return found.length;
  };
  const homes: string[] = [];
  const tries = cases.map(([name, env, message, own]) => async () => {
    const home = own ?? homeOf();
    homes.push(home);
    const lease = { ERRAND_LEASE_MS: leaseMs };
    const result = await cli(home, ['serve', '--port', '0'], { ...lease, ...env });
    assert.notEqual(result.code, 0, name);
    assert.match(result.stderr, message, name);
    assert.doesNotMatch(result.stderr, /secret|wrong@|at async/, `${name}: no password, no stack`);
    assert.equal(existsSync(join(home, 'server.pid')), false, name);
  });
  // A few concurrently: they are independent.
  await Promise.all(
    [0, 1, 2].map(async () => {
      for (let next = tries.shift(); next; next = tries.shift()) await next();
    }),
  );
  assert.equal(await rows(), 1, 'only the successful server is a node');
  await sql(`ALTER ROLE locked SUPERUSER`);
  const good = await startServer(t, {
    home: homes[0]!,
    env: { ERRAND_STORE: at('ready', 'locked', 'right'), ...key },
  });
  assert.equal((await good.api('GET', '/api/jobs')).status, 200);
});

test('two migrations and two servers start concurrently on an empty database', async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres.kill());
  const env = { ERRAND_STORE: postgres.url };
  const made = await Promise.all(
    [1, 2].map(() => cli(join(tempFolder(t), 'home'), ['migrate', '--json'], env)),
  );
  for (const { code, stderr } of made) assert.equal(code, 0, stderr);
  const servers = await Promise.all([startServer(t, { env }), startServer(t, { env })]);
  assert.equal(servers[0].key, servers[1].key);
  const { nodes } = (await servers[1].api('GET', '/api/nodes')).json<{ nodes: unknown[] }>();
  assert.equal(nodes.length, 2);
});
