// `errand store copy` with the real program: a home with jobs of every kind into a cluster and back. Every table is equal
// afterwards, and both sides continue from there.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { signWebhook } from '../../src/webhooks/signature.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { client as planes } from '../helpers/endpoint.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { listen, textOf } from '../helpers/listener.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { cli, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Report {
  tables: { name: string; rows: number }[];
  waiting: number;
  held: number;
}

interface Delivery {
  headers: IncomingHttpHeaders;
  body: string;
}

async function startSite(t: TestContext): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === '/robots.txt') return response.writeHead(404).end();
    response.setHeader('content-type', 'text/html; charset=utf-8');
    const links = [1, 2, 3].map((n) => `<a href="/p${n}">p${n}</a>`).join(' ');
    response.end(
      `<title>Ünï ${request.url}</title><h1>Page</h1><p>Words of ${request.url} 🦆.</p>${links}`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  return (server.address() as { port: number }).port;
}

const ok = async <T>(server: TestServer, ...args: string[]): Promise<T> => {
  const result = await server.cli(...args, '--json');
  assert.equal(result.code, 0, `${args.join(' ')}: ${result.stderr}${result.stdout}`);
  return result.json<T>();
};

/** Fills the tables of every kind: ended, waiting, delayed, paid, crawled and streamed jobs. */
async function fill(
  t: TestContext,
  server: TestServer,
): Promise<{ crawl: string; failed: string; received: Delivery[]; secret: string }> {
  const port = await startSite(t);
  const body = (command: string, more = {}) => ({ command, cwd: '/', waitMs: 20_000, ...more });
  const run = async (command: string, more = {}) =>
    (await server.api('POST', '/api/commands', body(command, more))).json<{ id: string }>().id;
  const failed = await run('echo out; exit 3', { name: 'a name', tags: ['x', 'y'] });
  await run('true', { name: 'kept', ensure: true });
  await run('true', { waitMs: 0, runAt: new Date(Date.now() + 3_600_000).toISOString() });
  await run('true', { waitMs: 0, labels: ['label=unknown'] });
  const crawl = await ok<{ id: string }>(server, 'crawl', `http://127.0.0.1:${port}/`);
  await server.api('POST', '/api/wait', { ids: [crawl.id], timeoutMs: 40_000 });
  const [payer, payee] = [
    (await ok<{ id: string }>(server, 'wallet', 'create', 'payer')).id,
    (await ok<{ id: string }>(server, 'wallet', 'create', 'payee')).id,
  ];
  await ok(server, 'wallet', 'mint', payer, '25.00', 'credit');
  await ok(
    server,
    ...['work', 'post', payee, '2.00', 'Work', '--wallet', payer, '--description', 'Do.'],
    '--fund',
  );
  const gpu = planes(server.url, server.key);
  await gpu.save('gpu', { leaseMs: 600_000 });
  for (const n of [1, 2, 3]) await gpu.run('gpu', { n });
  const taken = await gpu.call('GET', '/v2/gpu/job-take/w1?gpu=x');
  await gpu.call('POST', `/v2/gpu/job-stream/w1/${String(taken.body.id)}?gpu=x`, {
    output: 'part',
  });
  await gpu.call('GET', '/v2/gpu/job-take/w2?gpu=x');
  const received: Delivery[] = [];
  const url = await listen(t, async (incoming, outgoing) => {
    received.push({ headers: incoming.headers, body: await textOf(incoming) });
    outgoing.end();
  });
  const hook = await server.api('POST', '/api/webhooks', { url, events: ['completed'] });
  await ok(server, 'key', 'create', 'kept key');
  return { crawl: crawl.id, failed, received, secret: hook.json<{ secret: string }>().secret };
}

/** Every row of every table except those that belong to an engine or to running servers. */
async function rowsOf(home: string): Promise<Record<string, string[]>> {
  const store = new SqliteStore(join(home, 'errand.sqlite'));
  try {
    await store.migrate(allMigrations());
    const names = await store.read<{ name: string }>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         AND name NOT LIKE 'web_text%' AND name NOT IN ('migrations', 'nodes', 'dispatch', 'ledger')`,
    );
    const all: Record<string, string[]> = {};
    for (const { name } of names) {
      const rows = await store.read(`SELECT * FROM ${name}`);
      // Search indexes are rebuilt at the destination.
      all[name] = rows.map((row) => JSON.stringify({ ...row, indexed: 0 })).toSorted();
    }
    return all;
  } finally {
    await store.close();
  }
}

test('a home with every kind moves into a cluster and back', async (t) => {
  const home = homeWith(t, { egress: { allow: ['127.0.0.1'] }, web: { delayMs: 0 } });
  const first = await startServer(t, { home });
  const { crawl, failed, received, secret } = await fill(t, first);
  const served = await cli(home, [
    'store',
    'copy',
    '--from',
    `sqlite:${home}`,
    '--to',
    'sqlite:/x',
  ]);
  assert.notEqual(served.code, 0, 'rejected while a server has it open');
  await first.stop();
  const database = await freshDatabase();
  const copy = async (from: string, to: string) => {
    const result = await cli(home, ['store', 'copy', '--from', from, '--to', to, '--json']);
    assert.equal(result.code, 0, result.stderr + result.stdout);
    return result.json<Report>();
  };
  const there = await copy(`sqlite:${home}`, database);
  const filled = new Set(there.tables.filter(({ rows }) => rows > 0).map(({ name }) => name));
  for (const name of [
    ...[
      'jobs',
      'events',
      'counters',
      'queues',
      'keys',
      'webhooks',
      'command_runs',
      'command_names',
    ],
    ...['web_crawls', 'web_urls', 'web_pages', 'endpoints', 'endpoint_workers'],
  ])
    assert.ok(filled.has(name), `${name} has rows: ${[...filled].join(', ')}`);
  assert.ok(
    [...filled].some((name) => name.startsWith('escrow_')),
    'books',
  );
  assert.equal(there.held, 2);
  const back = join(tempFolder(t), 'back');
  assert.deepEqual(await copy(database, `sqlite:${back}`), there);
  assert.deepEqual(await rowsOf(back), await rowsOf(home));
  const twice = await cli(home, ['store', 'copy', '--from', database, '--to', `sqlite:${back}`]);
  assert.equal(twice.code, 5, 'stores are never merged');
  // The cluster continues from there, with the original home as its first node.
  const env = { ERRAND_STORE: database, ERRAND_CLUSTER_KEY: 'key' };
  const node = await startServer(t, { home, env });
  const output = await node.api('GET', `/api/jobs/${failed}/output`);
  assert.match(output.text, /out/);
  const pages = await node.api('GET', `/api/web/crawls/${crawl}/pages?fields=markdown`);
  assert.match(pages.text, /Words of/);
  const books = await ok<{ problems: unknown[] }>(node, 'escrow', 'verify');
  assert.deepEqual(books.problems, []);
  const gpu = planes(node.url, node.key);
  const next = await gpu.call('GET', '/v2/gpu/job-take/w3?gpu=x');
  assert.equal(next.status, 200, 'the waiting job is assigned');
  const isRight = await signedDelivery(node, received, secret);
  assert.ok(isRight, 'receivers can still verify signatures');
  await node.stop();
  // Back into a home, from a cluster with a key: secrets sealed with that key are copied as well.
  const last = join(tempFolder(t), 'last');
  const args = ['store', 'copy', '--from', database, '--to', `sqlite:${last}`];
  const locked = await cli(home, args);
  assert.equal(locked.code, 3, locked.stderr);
  assert.match(locked.stderr, /requires a cluster key/);
  assert.equal((await cli(home, args, { ERRAND_CLUSTER_KEY: 'key' })).code, 0);
  assert.equal(
    readFileSync(join(last, 'secret'), 'utf8'),
    readFileSync(join(home, 'secret'), 'utf8'),
  );
});

async function signedDelivery(node: TestServer, received: Delivery[], secret: string) {
  const before = received.length;
  await node.api('POST', '/api/commands', { command: 'true', cwd: '/', waitMs: 20_000 });
  const { headers, body } = await until('a delivery', () => received[before]);
  const signed = {
    id: String(headers['webhook-id']),
    timestamp: Number(headers['webhook-timestamp']),
    body,
    secret: Buffer.from(secret.replace('whsec_', ''), 'base64'),
  };
  return signWebhook(signed)['webhook-signature'] === headers['webhook-signature'];
}
