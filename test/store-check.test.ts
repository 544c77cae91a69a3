// `errand store check` passes with and without a running server, and finds every kind of damage.
import assert from 'node:assert/strict';
import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { Client } from 'pg';
import { allMigrations } from '../src/app.ts';
import { homeWith, tempFolder } from './helpers/folder.ts';
import { migratedDatabase } from './helpers/postgres.ts';
import { cli, startServer, type TestServer } from './helpers/server.ts';

const config = { web: { search: { engines: ['local'] } } };

interface Report {
  ok: boolean;
  rows: number;
  problems: { check: string; text: string }[];
  notes: string[];
}

/** A failed and retried command, a waiting one, a batch (which has no dispatch entry) and a charged search. */
async function fill(server: TestServer): Promise<string> {
  assert.equal((await server.api('PUT', '/api/queues/command/held', { paused: true })).status, 200);
  const waiting = { command: 'true', cwd: '/', queue: 'held', name: 'waiting' };
  assert.equal((await server.api('POST', '/api/commands', waiting)).status, 200);
  const inputs = [{ n: 1 }];
  assert.equal((await server.api('POST', '/api/endpoints', { id: 'e' })).status, 200);
  assert.equal((await server.api('POST', '/api/keys', { name: 'x' })).status, 200);
  assert.equal((await server.api('POST', '/api/wallets', { name: 'x' })).status, 200);
  const batch = await server.api('POST', '/api/endpoints/e/batches', { inputs });
  assert.equal(batch.status, 200, batch.text);
  const read = await server.api('POST', '/api/web/search', { query: 'x', waitMs: 20_000 });
  assert.equal(read.status, 200, read.text);
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
  [`UPDATE jobs SET tags = '{}' WHERE id = '${id}'`, /rows: jobs .*tags is JSON of an unexpected/],
  [`UPDATE keys SET queues = '7'`, /rows: keys .*queues is JSON of an unexpected form/],
  [`UPDATE nodes SET labels = '{"a'`, /rows: nodes .*labels is not valid JSON/],
  [`UPDATE endpoints SET spec = '{"maxWorkers":"x"}'`, /rows: endpoints .*spec is JSON of an/],
  [`UPDATE escrow_accounts SET policy = '[]'`, /rows: escrow_accounts .*policy is JSON of an/],
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
  [
    `UPDATE web_usage SET credits = credits + 3`,
    /counters: usage of \w+, \S+ search credits: stored (\d+), counted/,
  ],
];

/** Damaged dispatch entries, whose tables differ between stores: one missing, one without a job, one of an ended job. */
const dispatchDamage = {
  sqlite: (id: string) => [
    `DELETE FROM dispatch WHERE queue = 'command:held'`,
    `INSERT INTO dispatch (attempt_id, job_id, queue, priority, run_at, state)
       VALUES ('job_gone.1', 'job_gone', 'command:default', 0, 0, 0)`,
    `INSERT INTO dispatch (attempt_id, job_id, queue, priority, run_at, state, holder, lease_until)
       SELECT attempt_id, id, 'command:else', 0, 0, 2, holder, 1 FROM jobs WHERE id = '${id}'`,
  ],
  postgres: (id: string) => [
    `DELETE FROM errand_boss.job WHERE name = 'command/held'`,
    `INSERT INTO scheduled (attempt_id, job_id, queue, priority, run_at)
       VALUES ('job_gone.1', 'job_gone', 'command:default', 0, 1)`,
    `INSERT INTO leases (attempt_id, job_id, queue, holder, lease_until)
       SELECT attempt_id, id, 'command:else', holder, 1 FROM jobs WHERE id = '${id}'`,
  ],
};
const dispatchFound = [
  /dispatch: job job_\w+: queued, but it has no dispatch entry/,
  /dispatch: entry job_gone\.1: job job_gone does not exist/,
  /dispatch: entry job_\S+: held, but the job is completed/,
  /dispatch: job job_\w+: its dispatch entry is in queue command:else, but the job is in queue command:default/,
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
  { store, change }: { store: 'postgres' | 'sqlite'; change: (sql: string) => Promise<void> },
): Promise<void> {
  const id = await fill(server);
  const served = await check(home, env);
  assert.deepEqual([served.code, served.problems], [0, []]);
  assert.ok(served.rows > 10);
  await server.stop();
  const text = await cli(home, ['store', 'check'], env);
  assert.deepEqual(
    [text.code, /✓ every page, row, counter and dispatch entry is sound/.test(text.stdout)],
    [0, true],
    text.stdout,
  );
  const cases = damage(id);
  for (const [sql] of cases) await change(sql);
  for (const sql of dispatchDamage[store](id)) await change(sql);
  const found = await check(home, env);
  assert.equal(found.code, 1);
  const lines = found.problems.map((problem) => `${problem.check}: ${problem.text}`).join('\n');
  for (const expected of [...cases.map(([, one]) => one), ...dispatchFound])
    assert.match(lines, expected);
}

test('an embedded store: pages, bytes, rows, counters and books', async (t) => {
  const home = homeWith(t, config);
  const server = await startServer(t, { home });
  const file = join(home, 'errand.sqlite');
  const change = async (sql: string) => {
    const db = new DatabaseSync(file);
    db.exec(sql);
    db.close();
  };
  await walk(home, {}, server, { store: 'sqlite', change });
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
  const server = await startServer(t, { home: homeWith(t, config), env });
  const change = async (sql: string) => {
    const client = new Client({ connectionString: url, options: '-c search_path=errand' });
    await client.connect();
    try {
      // Unfolded deltas count as well.
      if (sql.startsWith('UPDATE counters')) await fold(client);
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  await walk(server.home, env, server, { store: 'postgres', change });
});

async function fold(client: Client): Promise<void> {
  await client.query(
    `WITH gone AS (DELETE FROM counter_deltas RETURNING scope, key, n)
     INSERT INTO counters (scope, key, n) SELECT scope, key, sum(n) FROM gone GROUP BY scope, key
     ON CONFLICT (scope, key) DO UPDATE SET n = counters.n + excluded.n`,
  );
}
