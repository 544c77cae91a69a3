// `errand store check`: sound with and without a running server; every kind of damage is found, named, and changes the exit code.
import assert from 'node:assert/strict';
import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { Client } from 'pg';
import { allMigrations } from '../src/app.ts';
import { tempFolder } from './helpers/folder.ts';
import { migratedDatabase } from './helpers/postgres.ts';
import { cli, startServer, type TestServer } from './helpers/server.ts';

interface Report {
  ok: boolean;
  rows: number;
  problems: { check: string; text: string }[];
  notes: string[];
}

async function fill(server: TestServer): Promise<string> {
  const ran = await server.api('POST', '/api/commands', {
    command: 'exit 3',
    cwd: '/',
    waitMs: 20_000,
  });
  const { id } = ran.json<{ id: string }>();
  assert.equal((await server.api('POST', `/api/jobs/${id}/retry`, {})).status, 200);
  await server.api('POST', '/api/wait', { ids: [id], timeoutMs: 20_000 });
  return id;
}

/** The same damage on both stores, in SQL. */
const damage = (id: string): [sql: string, found: RegExp][] => [
  [
    `UPDATE jobs SET input = '{"broken' WHERE id = '${id}'`,
    new RegExp(`rows: jobs .*input is not valid JSON`),
  ],
  [
    `UPDATE events SET data = '' WHERE job_id = '${id}' AND n = 1`,
    /rows: events .*data is not valid JSON/,
  ],
  [
    `UPDATE counters SET n = n + 1 WHERE scope = 'queue:command:default' AND key = 'failed'`,
    /counters: counter queue:command:default failed: stored 2, counted 0/,
  ],
  [
    `UPDATE counters SET n = 7 WHERE scope = 'retries:command:default'`,
    /counters: counter retries:command:default retried: stored 7, counted 1/,
  ],
  [
    `UPDATE jobs SET version = version + 1 WHERE id = '${id}'`,
    new RegExp(`counters: job ${id}: version`),
  ],
  [
    `UPDATE jobs SET status = 'completed' WHERE id = '${id}'`,
    new RegExp(`counters: job ${id}: completed, but its last event is failed`),
  ],
  [`DELETE FROM attempts WHERE job_id = '${id}'`, new RegExp(`counters: job ${id}: attempt 2`)],
  [`UPDATE escrow_accounts SET balance = 5 WHERE id = 'fees:platform:0'`, /books: .*balance is 5/],
];

async function check(
  home: string,
  env: Record<string, string> = {},
): Promise<Report & { code: number }> {
  const { code, stdout, stderr } = await cli(home, ['store', 'check', '--json'], env);
  assert.ok(stdout.startsWith('{"'), stderr + stdout);
  return { ...(JSON.parse(stdout) as Report), code };
}

async function walk(
  home: string,
  env: Record<string, string>,
  server: TestServer,
  change: (sql: string) => Promise<void>,
): Promise<void> {
  const id = await fill(server);
  const served = await check(home, env);
  assert.deepEqual([served.code, served.problems], [0, []]);
  assert.ok(served.rows > 10);
  await server.stop();
  const text = await cli(home, ['store', 'check'], env);
  assert.deepEqual(
    [text.code, /✓ every page, row and counter is sound/.test(text.stdout)],
    [0, true],
    text.stdout,
  );
  const cases = damage(id);
  for (const [sql] of cases) await change(sql);
  const found = await check(home, env);
  assert.equal(found.code, 1);
  const lines = found.problems.map((problem) => `${problem.check}: ${problem.text}`).join('\n');
  for (const [, expected] of cases) assert.match(lines, expected);
}

test('an embedded store: pages, bytes, rows, counters and books', async (t) => {
  const server = await startServer(t);
  const { home } = server;
  const file = join(home, 'errand.sqlite');
  await walk(home, {}, server, async (sql) => {
    const db = new DatabaseSync(file);
    db.exec(sql);
    db.close();
  });
  const db = new DatabaseSync(file);
  db.exec(`UPDATE jobs SET name = CAST(x'ff41' AS TEXT)`);
  db.close();
  const bytes = await check(home);
  assert.match(JSON.stringify(bytes.problems), /name is not valid UTF-8/);
  const { size } = statSync(file);
  const handle = openSync(file, 'r+');
  writeSync(handle, Buffer.alloc(4096 * 3, 0x5a), 0, 4096 * 3, Math.floor(size / 2 / 4096) * 4096);
  closeSync(handle);
  const pages = await check(home);
  assert.equal(pages.code, 1);
  assert.ok(pages.problems.some((problem) => problem.check === 'pages'));
  const none = await cli(join(tempFolder(t), 'none'), ['store', 'check']);
  assert.deepEqual([none.code, /There is no database/.test(none.stderr)], [4, true]);
});

test('a PostgreSQL store: rows, counters and books', async (t) => {
  const url = await migratedDatabase(allMigrations());
  const env = { ERRAND_STORE: url };
  const server = await startServer(t, { env });
  await walk(server.home, env, server, async (sql) => {
    const client = new Client({ connectionString: url, options: '-c search_path=errand' });
    await client.connect();
    try {
      // What is not folded yet counts as well.
      if (sql.startsWith('UPDATE counters')) await fold(client);
      await client.query(sql);
    } finally {
      await client.end();
    }
  });
});

async function fold(client: Client): Promise<void> {
  await client.query(
    `WITH gone AS (DELETE FROM counter_deltas RETURNING scope, key, n)
     INSERT INTO counters (scope, key, n) SELECT scope, key, sum(n) FROM gone GROUP BY scope, key
     ON CONFLICT (scope, key) DO UPDATE SET n = counters.n + excluded.n`,
  );
}
