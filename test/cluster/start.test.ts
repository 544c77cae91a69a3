// Starts that cannot work, with the real program: each says what is wrong and what to do, and leaves nothing half-started:
// no process, no lock, no row. Then the races of a first start.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { parseAddress, refuseServer } from '../../src/store/postgres/open.ts';
import { tempFolder } from '../helpers/folder.ts';
import { freePort, startServer as startPostgres } from '../helpers/postgres.ts';
import { cli, startServer } from '../helpers/server.ts';
import { startDoor } from '../helpers/wire.ts';

test('a server below 15 and a standby are refused by what they say of themselves', async (t) => {
  const address = parseAddress('postgres://u:secret@db/errand');
  const check = (version: number, shown: string) => () =>
    refuseServer({ version, shown, standby: false }, address);
  assert.throws(check(90_624, '9.6.24'), { hint: /15 or newer/ });
  for (const version of [150_000, 160_002, 180_004]) check(version, String(version))();
  const doors = [
    ['14.11', '140011', false, /PostgreSQL 14\.11 at \S+ is too old/],
    ['18.4', '180004', true, /read-only standby/],
  ] as const;
  for (const [shown, version, standby, message] of doors) {
    const door = await startDoor(t, shown, { version, shown, standby });
    const env = { ERRAND_STORE: `postgres://ada:secret@127.0.0.1:${door.port}/errand` };
    for (const words of [['serve', '--port', '0'], ['migrate']]) {
      const home = join(tempFolder(t), 'home');
      const answer = await cli(home, words, env);
      assert.equal(answer.code, 7, answer.stderr);
      assert.match(answer.stderr, message);
      assert.doesNotMatch(answer.stderr, /secret/);
      assert.equal(existsSync(join(home, 'server.pid')), false);
    }
    assert.equal(door.asked.length, 2, 'nothing but the one question, each time');
  }
});

test('starts that cannot work say why and leave nothing behind; then the same homes start', async (t) => {
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
    env: { ERRAND_STORE: at('ready'), ERRAND_CLUSTER_KEY: 'one', ERRAND_LEASE_MS: '3000' },
  });

  const nobody = `postgres://x@127.0.0.1:${await freePort()}/x`;
  const key = { ERRAND_CLUSTER_KEY: 'one' };
  const twin = homeOf();
  mkdirSync(twin, { mode: 0o700 });
  copyFileSync(join(first.home, 'node.id'), join(twin, 'node.id'));
  const cases: [name: string, env: Record<string, string>, message: RegExp, home?: string][] = [
    ['unreachable', { ERRAND_STORE: nobody }, /cannot be reached/],
    ['no such database', { ERRAND_STORE: at('nowhere') }, /There is no database/],
    ['not migrated', { ERRAND_STORE: at('empty') }, /holds no Errand yet[^]*errand migrate/],
    ['wrong password', { ERRAND_STORE: at('ready', 'locked', 'wrong') }, /refused the user or/],
    ['missing rights', { ERRAND_STORE: at('ready', 'visitor'), ...key }, /lacks a right/],
    ['rights to read only', { ERRAND_STORE: at('ready', 'reader'), ...key }, /right on errand\./],
    ['another pg-boss', { ERRAND_STORE: at('other') }, /tables of pg-boss/],
    ['schema newer', { ERRAND_STORE: at('newer') }, /newer Errand/],
    [
      'another cluster',
      { ERRAND_STORE: at('ready'), ...key, ERRAND_CLUSTER: 'other' },
      /belongs to/,
    ],
    ['wrong key', { ERRAND_STORE: at('ready'), ERRAND_CLUSTER_KEY: 'two' }, /another cluster key/],
    ['no key', { ERRAND_STORE: at('ready') }, /needs a cluster key/],
    ['two nodes with one id', { ERRAND_STORE: at('ready'), ...key }, /runs already/, twin],
    ['another kind of store', { ERRAND_STORE: 'mysql://x:secret@h/x' }, /neither postgres/],
    ['an empty address', { ERRAND_STORE: '' }, /neither postgres/],
    ['no TLS there', { ERRAND_STORE: `${at('ready')}?sslmode=verify-full` }, /No encrypted conn/],
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
    const lease = { ERRAND_LEASE_MS: '3000' };
    const answer = await cli(home, ['serve', '--port', '0'], { ...lease, ...env });
    assert.notEqual(answer.code, 0, name);
    assert.match(answer.stderr, message, name);
    assert.doesNotMatch(answer.stderr, /secret|wrong@|at async/, `${name}: no password, no stack`);
    assert.equal(existsSync(join(home, 'server.pid')), false, name);
  });
  // A few at once: they have nothing to do with each other.
  await Promise.all(
    [0, 1, 2].map(async () => {
      for (let next = tries.shift(); next; next = tries.shift()) await next();
    }),
  );
  assert.equal(await rows(), 1, 'only the good one is a node');
  await sql(`ALTER ROLE locked SUPERUSER`);
  const good = await startServer(t, {
    home: homes[0]!,
    env: { ERRAND_STORE: at('ready', 'locked', 'right'), ...key },
  });
  assert.equal((await good.api('GET', '/api/jobs')).status, 200);
});

test('two migrations and two servers at once on an empty database', async (t) => {
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
