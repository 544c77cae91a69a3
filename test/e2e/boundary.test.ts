// Every interface enforces the input limits, and a stored row that cannot be decoded is listed and removed like any other.
// test/cluster/e2e-boundary.test.ts repeats these tests on PostgreSQL.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { spawnBridge } from '../interfaces/mcp/json-rpc.ts';
import { startSite } from '../fixtures/site/site.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { openReader } from '../helpers/postgres.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import {
  bin,
  onPostgres,
  serverEnv,
  startServer,
  type ApiResponse,
  type TestServer,
} from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const nested = (depth: number): string => `${'['.repeat(depth)}1${']'.repeat(depth)}`;
const manyKeys = (count: number): string =>
  `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`;

/** Sends the body unchanged, because JSON.stringify cannot produce it. */
async function post(
  server: TestServer,
  path: string,
  body: string | Buffer<ArrayBuffer>,
): Promise<ApiResponse> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body,
  });
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, json: <T>() => JSON.parse(text) as T };
}

const tooMuch: Record<string, string> = {
  'an array nested 600 deep': nested(600),
  'an array nested 200,000 deep': nested(200_000),
  'an object nested 600 deep': `${'{"a":'.repeat(600)}1${'}'.repeat(600)}`,
  'an object of 100,001 keys': manyKeys(100_001),
  'a number beyond every double': '1e400',
  'a number of 2,000 digits': '9'.repeat(2000),
};

/** Shared by tests that only call it. */
const calledServer = () => sharedServer({ egress: { allow: ['127.0.0.1'] } });

test('every interface rejects input over a limit, and nothing is stored', async (t) => {
  const server = await calledServer();
  await save(server);
  const before = await everything(server);
  await t.test('HTTP, with every dialect', () => refusedOverHttp(server));
  await t.test('MCP over HTTP', () => refusedOverMcp(server));
  await t.test('MCP over stdio, which stays connected', (s) => refusedOverStdio(s, server));
  await t.test('files for the command line', (s) => refusedAsFile(s, server));
  assert.deepEqual(await everything(server), before);
  assert.doesNotMatch(server.stderr(), /request failed/);
});

async function refusedOverHttp(server: TestServer): Promise<void> {
  const routes: [string, (value: string) => string][] = [
    ['/api/endpoints/e/run', (value) => `{"input":${value}}`],
    ['/api/submit_endpoint_job', (value) => `{"endpointId":"e","input":${value}}`],
    ['/api/endpoints/e/batches', (value) => `{"inputs":[1,${value}]}`],
    ['/api/draft_batch', (value) => `{"endpointId":"e","requests":[{"input":${value}}]}`],
    ['/v2/e/run', (value) => `{"input":${value}}`],
    ['/v2/e/runsync', (value) => `{"input":${value}}`],
    ['/api/commands', (value) => `{"command":"true","extra":${value}}`],
    ['/api/wait', (value) => `{"ids":${value}}`],
    ['/firecrawl/v2/crawl', (value) => `{"url":"https://example.com","x":${value}}`],
    ['/searchclaw/v1/crawl', (value) => `{"url":"https://example.com","x":${value}}`],
    ['/cardzero/v1/jobs', (value) => `{"x":${value}}`],
    ['/internal/operations/run_endpoint', (value) => `{"endpointId":"e","input":${value}}`],
  ];
  for (const [path, body] of [...routes, ['/mcp', (value: string) => runCall(value, 1)] as const]) {
    const bytes = Buffer.from(body('"\u00ff"'), 'latin1');
    const answer = await post(server, path, bytes);
    assert.ok([400, 405].includes(answer.status), `${path} with invalid UTF-8: ${answer.text}`);
  }
  for (const [path, body] of routes)
    for (const [what, value] of Object.entries(tooMuch)) {
      const answer = await post(server, path, body(value));
      assert.ok(
        [400, 404, 405, 413, 422].includes(answer.status),
        `${path} with ${what}: ${answer.status} ${answer.text.slice(0, 200)}`,
      );
    }
}

const toolCall = (name: string, args: string, id: number): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;
const runCall = (value: string, id: number): string =>
  toolCall('run_endpoint', `{"endpointId":"e","input":${value}}`, id);

async function refusedOverMcp(server: TestServer): Promise<void> {
  for (const [what, value] of Object.entries(tooMuch)) {
    const answer = await post(server, '/mcp', runCall(value, 1));
    assert.ok(answer.status < 500, `${what}: ${answer.status}`);
    assert.match(answer.text, /"isError":true|"error":/, what);
  }
}

async function refusedOverStdio(t: TestContext, server: TestServer): Promise<void> {
  const bridge = spawnBridge(t, process.execPath, [bin, 'mcp'], serverEnv(server.home));
  await bridge.request('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'raw', version: '1' },
  });
  bridge.notify('notifications/initialized', {});
  await bridge.request('tools/call', { name: 'list_jobs', arguments: {} });
  for (const [what, value] of Object.entries(tooMuch)) {
    const answer = await bridge.send(runCall(value, 5000));
    assert.ok(answer.error ?? answer.result?.isError, what);
    // Read-only tools use the fast path of the bridge.
    const looked = await bridge.send(toolCall('get_job', `{"id":${value}}`, 5001));
    assert.ok(looked.error ?? looked.result?.isError, what);
  }
  // Limits apply to the whole message, and a client never waits for a response that does not come.
  const other = [nested(600), nested(200_000), `[1234567890123456789,${nested(200_000)}]`].flatMap(
    (value) => [
      `"tools/call","params":{"name":"list_jobs","arguments":{},"_meta":${value}}`,
      `"resources/read","params":{"uri":${value}}`,
    ],
  );
  for (const rest of [...other, '"tools/call","params":5'])
    assert.ok((await bridge.send(`{"jsonrpc":"2.0","id":5002,"method":${rest}}`)).error, rest);
  const list = await bridge.request('tools/call', { name: 'list_jobs', arguments: {} });
  assert.equal(list.result?.isError, undefined);
}

async function refusedAsFile(t: TestContext, server: TestServer): Promise<void> {
  const file = join(tempFolder(t), 'input.json');
  for (const depth of [600, 200_000]) {
    writeFileSync(file, nested(depth));
    const answer = await server.cli('endpoint', 'run', 'e', `@${file}`);
    assert.equal(answer.code, 2, answer.stderr);
  }
}

test('input at the limits is stored, listed, run and cancelled', async () => {
  const server = await calledServer();
  await save(server);
  const deepest = `{"input":${nested(499)}}`;
  const one = (await post(server, '/api/endpoints/e/run', deepest)).json<{ id: string }>();
  const batch = await post(server, '/api/endpoints/e/batches', `{"inputs":[${nested(498)}]}`);
  assert.equal(batch.status, 200, batch.text.slice(0, 300));
  const big = '{"input":{"n":123456789012345678901234567890}}';
  const exact = (await post(server, '/api/endpoints/e/run', big)).json<{ id: string }>();
  const list = await server.api('GET', '/api/jobs?limit=50');
  assert.equal(list.json<{ jobs: unknown[] }>().jobs.length, 4);
  const shown = await server.api('GET', `/api/jobs/${exact.id}?includeInput=true`);
  assert.match(shown.text, /123456789012345678901234567890/);
  const taken = await server.api('GET', '/v2/e/job-take/w1');
  assert.equal(taken.status, 200, taken.text.slice(0, 300));
  const done = await post(server, `/v2/e/job-done/w1/${one.id}`, `{"output":${nested(600)}}`);
  assert.equal(done.status, 200);
  const ended = await until('the job is over', async () => {
    const job = (await server.api('GET', `/api/jobs/${one.id}`)).json<{ status: string }>();
    return job.status === 'failed' ? job : undefined;
  });
  assert.equal((ended as unknown as { error: { code: string } }).error.code, 'resultNotJson');
  assert.equal((await server.api('POST', `/api/jobs/${exact.id}/cancel`, {})).status, 200);
  assert.equal((await server.api('DELETE', '/api/endpoints/e')).status, 200);
});

test('a home with rows that cannot be decoded recovers automatically', async (t) => {
  const server = await startServer(t, { env: { ERRAND_SWEEP_MS: '100' } });
  await save(server);
  await save(server, 'damaged');
  const ids: string[] = [];
  for (let i = 0; i < 5; i++)
    ids.push(
      (await server.api('POST', '/api/endpoints/e/run', { input: i })).json<{ id: string }>().id,
    );
  const draft = await server.api('POST', '/api/draft_batch', {
    endpointId: 'e',
    requests: [{ input: 1 }, { input: 2 }],
  });
  const batchId = draft.json<{ id: string }>().id;
  const command = await server.api('POST', '/api/commands', { command: 'true', runAt: inAnHour() });
  const held = command.json<{ id: string }>().id;
  const hook = await server.api('POST', '/api/webhooks', { url: 'https://example.com/hook' });
  assert.equal(hook.status, 200, hook.text);
  await server.stop();
  const rows: [string, string, string][] = [
    ['input', `{"input":${nested(600)}}`, ids[0]!],
    ['input', nested(200_000), ids[1]!],
    ['input', '{"broken', ids[2]!],
    ['tags', '{"not":"a list"}', ids[2]!],
    ['input', '[', held],
  ];
  await writeSql(t, server, [
    ...rows.map(
      ([column, value, id]) => [`UPDATE jobs SET ${column} = ? WHERE id = ?`, value, id] as const,
    ),
    [
      `UPDATE endpoint_batch_drafts SET body = ? WHERE batch_id = ? AND n = 1`,
      nested(3000),
      batchId,
    ],
    [`UPDATE endpoints SET spec = ? WHERE id = ?`, '{"maxWorkers":"many"}', 'damaged'],
    [`UPDATE events SET data = ? WHERE job_id = ?`, '{', ids[2]!],
    [`UPDATE events SET data = ? WHERE job_id = ?`, 'null', ids[3]!],
    [`UPDATE webhooks SET events = ? WHERE owner <> ?`, '7', ''],
  ]);
  const again = await startServer(t, { home: server.home, env: { ERRAND_SWEEP_MS: '100' } });
  const list = await again.api('GET', '/api/jobs?limit=50');
  assert.equal(list.status, 200, list.text);
  const lines = list.json<{ jobs: { id: string; undecodable?: string[] }[] }>().jobs;
  assert.equal(lines.length, 7);
  assert.deepEqual(lines.find(({ id }) => id === ids[2])?.undecodable, ['tags', 'input']);
  for (const { id } of lines) {
    assert.equal((await again.api('GET', `/api/jobs/${id}`)).status, 200);
    assert.equal((await again.api('GET', `/api/jobs/${id}/events`)).status, 200);
  }
  assert.equal((await again.cli('list')).code, 0);
  assert.equal((await again.cli('show', ids[2]!)).code, 0);

  // Rows that cannot be decoded end as failed, and the jobs behind them run. A row with 600 levels is decodable and runs.
  const took = new Set<string>();
  await until('the decodable jobs are assigned', async () => {
    const answer = await again.api('GET', '/v2/e/job-take-batch/w1?batch_size=10');
    if (answer.status === 200) for (const { id } of answer.json<{ id: string }[]>()) took.add(id);
    return took.size === 3;
  });
  assert.deepEqual([...took].toSorted(), [ids[0]!, ids[3]!, ids[4]!].toSorted());
  for (const id of took) await again.api('POST', `/v2/e/job-done/w1/${id}`, { output: 1 });
  for (const id of [ids[1]!, ids[2]!]) {
    const job = (await again.api('GET', `/api/jobs/${id}`)).json<{
      status: string;
      error: { code: string };
    }>();
    assert.equal(job.status, 'failed');
    assert.equal(job.error.code, 'undecodable');
  }

  const finalized = await again.api('POST', '/api/change_batch', {
    endpointId: 'e',
    batchId,
    finalize: true,
  });
  assert.equal(finalized.status, 200, finalized.text);
  const children = (await again.api('GET', `/api/batches/${batchId}/jobs`)).json<{
    jobs: { status: string }[];
  }>().jobs;
  assert.deepEqual(children.map(({ status }) => status).toSorted(), ['failed', 'queued']);

  assert.equal(
    (await again.api('POST', `/api/jobs/${held}/cancel`, {})).json<{ status: string }>().status,
    'cancelled',
  );
  const purged = await again.api('POST', '/v2/e/purge-queue', {});
  assert.equal(purged.status, 200, purged.text);
  const endpoints = await again.api('GET', '/api/endpoints');
  assert.match(endpoints.text, /"undecodable":true/);
  for (const id of ['damaged', 'e']) {
    const gone = await again.api('DELETE', `/api/endpoints/${id}`);
    assert.equal(gone.status, 200, gone.text);
  }
  assert.equal((await again.api('GET', '/api/webhooks')).status, 200);
  assert.doesNotMatch(again.stderr(), /request failed|(sweep|pump) failed/);
});

/** Not JSON, JSON of another type, and JSON over every limit. */
const damages = ['{"broken', '7', nested(3000)];

test('damaged crawl, node, release, stream and remote rows are listed and removed', async (t) => {
  const site = await startSite(t, { pages: 3 });
  const home = homeWith(t, { egress: { allow: ['127.0.0.1'] } });
  const server = await startServer(t, { home, env: { ERRAND_SWEEP_MS: '100' } });
  const body = { url: site.url('/p/1'), limit: 1 };
  const ids: string[] = [];
  for (const _ of damages) {
    const { id } = (await server.api('POST', '/firecrawl/v2/crawl', body)).json<{ id: string }>();
    ids.push(id);
  }
  const parts = [...damages, '[null]', '[7]', '{}', '{"baseUrl":7}'];
  const endpointJobs: string[] = [];
  for (const i of parts.keys()) {
    for (const maxWorkers of [1, 2])
      await server.api('POST', '/api/endpoints', { id: `d${i}`, maxWorkers });
    const ran = await server.api('POST', `/v2/d${i}/run`, { input: {} });
    endpointJobs.push(ran.json<{ id: string }>().id);
    await server.api('GET', `/v2/d${i}/job-take/w1`);
    await server.api('POST', `/v2/d${i}/job-stream/w1/${endpointJobs[i]}`, { output: 'a' });
  }
  await until('the crawls are over', async () => {
    const all = await Promise.all(ids.map((id) => server.api('GET', `/api/jobs/${id}`)));
    return all.every((answer) => answer.json<{ status: string }>().status === 'completed');
  });
  await server.stop();
  const anHourAgo = Date.now() - 3_600_000;
  for (const [i, damage] of damages.entries())
    await writeSql(t, server, [
      ['UPDATE web_crawls SET state = ? WHERE job_id = ?', damage, ids[i]!],
      [
        `INSERT INTO nodes (id, name, labels, capacity, running, state, instance, version, started_at, seen_at)
         SELECT 'node_damaged${i}', 'damaged', ?, ?, ?, 'active', 'x', '0', ${anHourAgo}, ${anHourAgo}`,
        damage,
        damage,
        damage,
      ],
    ]);
  for (const [i, damage] of parts.entries())
    await writeSql(t, server, [
      ['UPDATE endpoint_releases SET diff = ? WHERE endpoint_id = ?', damage, `d${i}`],
      ['UPDATE endpoint_chunks SET data = ? WHERE job_id = ?', damage, endpointJobs[i]!],
      [
        `INSERT INTO endpoint_remote_jobs
           (attempt_id, job_id, endpoint_id, remote_id, state, tries, due_at, created_at, remote)
         SELECT attempt_id, id, ?, 'there', 'sent', 0, 1, 1, ? FROM jobs WHERE id = ?`,
        `d${i}`,
        damage,
        endpointJobs[i]!,
      ],
    ]);
  const again = await startServer(t, { home, env: { ERRAND_SWEEP_MS: '100' } });
  const shown = [
    ...ids.flatMap((id) => [`/api/jobs/${id}`, `/firecrawl/v2/crawl/${id}`]),
    ...endpointJobs.flatMap((id, i) => [
      `/api/jobs/${id}`,
      `/v2/d${i}/status/${id}`,
      `/v2/d${i}/stream/${id}`,
      `/v2/d${i}/health`,
      `/api/endpoints/d${i}`,
      `/api/endpoints/d${i}/releases`,
    ]),
  ];
  for (const path of [...shown, '/api/jobs', '/metrics']) {
    const answer = await again.api('GET', path);
    assert.equal(answer.status, 200, `${path}: ${answer.text}`);
  }
  for (const i of damages.keys()) {
    assert.match((await again.api('GET', '/api/nodes')).text, new RegExp(`node_damaged${i}`));
    const forgotten = await again.api('DELETE', `/api/nodes/node_damaged${i}`);
    assert.equal(forgotten.status, 200, forgotten.text);
  }
  for (const [i, id] of endpointJobs.entries()) {
    const cancelled = await again.api('POST', `/v2/d${i}/cancel/${id}`);
    assert.equal(cancelled.status, 200, cancelled.text);
    const removed = await again.api('DELETE', `/api/endpoints/d${i}`);
    assert.equal(removed.status, 200, removed.text);
  }
  const next = await again.api('POST', '/firecrawl/v2/crawl', body);
  assert.equal(next.status, 200, next.text);
  assert.doesNotMatch(again.stderr(), /failed/);
});

test('damaged key, wallet and escrow rows block nothing and grant no rights', async (t) => {
  const home = homeWith(t, { escrow: { minExpiryMs: 1, sweepMs: 100 } });
  const server = await startServer(t, { home });
  const made = async (path: string, body: object) => {
    const answer = await server.api('POST', path, body);
    assert.equal(answer.status, 200, answer.text);
    return answer.json<{ id: string; key?: string }>();
  };
  const wallet = (name: string) => made('/api/wallets', { name });
  const [client, provider] = [await wallet('client'), await wallet('provider')];
  const mint = (id: string) =>
    made('/api/escrow/mint', { wallet: id, amount: '10', transferId: id });
  await mint(client.id);
  const hire = (title: string, more = {}) =>
    made('/api/work', {
      ...{ wallet: client.id, provider: provider.id, budget: '1000', title, description: 'x' },
      ...{ repeat: true, ...more },
    });
  const victims: { terms: string; state: string; spender: string; key: string; id: string }[] = [];
  for (const _ of damages) {
    const spender = (await wallet('spender')).id;
    await mint(spender);
    const key = await made('/api/keys', { name: 'k', scopes: ['read', 'run'], queues: ['ci'] });
    const [terms, state] = [(await hire('damaged terms')).id, (await hire('damaged state')).id];
    victims.push({ terms, state, spender, key: key.key!, id: key.id });
  }
  const good = await hire('good');
  const brief = await hire('brief', { expiresAt: new Date(Date.now() + 5000).toISOString() });
  await server.stop();
  for (const [i, { terms, state, spender, id }] of victims.entries())
    await writeSql(t, server, [
      ['UPDATE escrow_work SET spec = ?, next_at = 1 WHERE job_id = ?', damages[i]!, terms],
      ['UPDATE escrow_work SET state = ?, next_at = 1 WHERE job_id = ?', damages[i]!, state],
      ['UPDATE escrow_accounts SET policy = ? WHERE id = ?', damages[i]!, spender],
      ['UPDATE keys SET queues = ? WHERE id = ?', damages[i]!, id],
    ]);
  const again = await startServer(t, { home });
  const paths = ['/api/jobs', '/api/keys', '/api/wallets', `/api/work?wallet=${provider.id}`];
  const jobs = victims.flatMap(({ terms, state }) => [terms, state]).map((id) => `/api/jobs/${id}`);
  for (const path of [...paths, ...jobs]) {
    const answer = await again.api('GET', path);
    assert.equal(answer.status, 200, `${path}: ${answer.text}`);
  }
  const listed = await again.api('GET', `/api/work?wallet=${provider.id}`);
  assert.match(listed.text, new RegExp(good.id));
  await until('due work is completed', async () => {
    const job = (await again.api('GET', `/api/jobs/${brief.id}`)).json<{ stage: string }>();
    return job.stage === 'expired';
  });
  for (const { terms, spender, key } of victims) {
    const refused = await again.api('POST', `/api/work/${terms}/fund`, {
      ...{ wallet: client.id, expectedBudget: '1000' },
    });
    assert.equal(refused.status, 409, refused.text);
    const payment = { wallet: spender, to: provider.id, amount: '0.50' };
    assert.ok((await again.api('POST', '/api/payments', payment)).status >= 400);
    const limited = await again.api('GET', '/api/jobs', undefined, {
      authorization: `Bearer ${key}`,
    });
    assert.ok([401, 403].includes(limited.status), String(limited.status));
  }
});

test('a batch is queued completely, or only its own request fails', async () => {
  const server = await calledServer();
  await save(server);
  await server.api('POST', '/api/endpoints/e/run', { input: 'other', idempotencyKey: 'taken' });
  const draft = await server.api('POST', '/api/draft_batch', {
    endpointId: 'e',
    requests: [{ input: 1 }, { input: 2, idempotencyKey: 'taken' }, { input: 3 }],
  });
  const batchId = draft.json<{ id: string }>().id;
  const refused = await server.api('POST', '/api/change_batch', {
    endpointId: 'e',
    batchId,
    add: [{ input: 4 }],
    remove: 'job_0000000000000000',
    name: 'renamed',
  });
  assert.equal(refused.status, 404);
  const same = (await server.api('GET', `/api/batches/${batchId}`)).json<{
    counts: { total: number };
    name?: string;
  }>();
  assert.deepEqual([same.counts.total, same.name], [3, undefined]);
  const done = await server.api('POST', '/api/change_batch', {
    endpointId: 'e',
    batchId,
    finalize: true,
  });
  assert.equal(done.status, 200, done.text);
  const { counts } = done.json<{ counts: Record<string, number> }>();
  assert.deepEqual([counts.queued, counts.failed], [2, 1]);
});

const inherited = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'];

test('names of inherited object properties are ordinary names', async (t) => {
  const site = await startSite(t, { pages: 3 });
  const server = await calledServer();
  const url = site.url('/p/1');
  // No lookup finds an inherited property.
  for (const name of onPostgres ? inherited.slice(0, 2) : inherited) {
    const field = `"${name}":1`;
    const bodies: [string, string][] = [
      ['/firecrawl/v2/scrape', `{"url":"${url}",${field}}`],
      ['/firecrawl/v2/scrape', `{"url":"${url}","formats":["${name}"]}`],
      ['/firecrawl/v2/search', `{"query":"x","categories":["${name}"]}`],
      ['/firecrawl/v2/crawl', `{"url":"${url}","limit":1,${field}}`],
      ['/firecrawl/v2/map', `{"url":"${url}",${field}}`],
      ['/searchclaw/v1/crawl', `{"url":"${url}",${field}}`],
      ['/searchclaw/v1/extract', `{"url":"${url}","schema":{${field},"a":"${name}"}}`],
      ['/cardzero/v1/jobs', `{${field}}`],
      ['/api/endpoints', `{"id":"e","envFrom":["${name}"],"recipe":{"worker":["true"]}}`],
      ['/api/endpoints/e/run', `{"input":{${field}}}`],
      ['/api/endpoints/e/run', `{${field}}`],
      ['/v2/e/run', `{"input":{${field}},${field}}`],
      [
        '/api/web_extract',
        `{"url":"${url}","schema":{"type":"object","properties":{"${name}":{"type":"string"}}}}`,
      ],
      ['/api/commands', `{"command":"true","env":{"${name}":"x"},"secrets":["${name}"]}`],
      [`/api/${name}`, '{}'],
      [`/internal/operations/${name}`, '{}'],
      ['/mcp', toolCall(name, `{${field}}`, 1)],
    ];
    for (const [path, body] of bodies) {
      const answer = await post(server, path, body);
      const isSearch = path.endsWith('/search');
      assert.ok(
        answer.status < 500 || isSearch,
        `${path} ${body}: ${answer.status} ${answer.text}`,
      );
    }
    const looked = await Promise.all(
      [
        `/api/jobs/${name}`,
        `/api/endpoints/${name}`,
        `/api/jobs?${name}=1`,
        `/v2/${name}/health`,
      ].map((path) => server.api('GET', path)),
    );
    for (const { status, text } of looked) assert.ok(status === 404 || status === 400, text);
  }
  assert.doesNotMatch(server.stderr(), /request failed/);
});

async function save(server: TestServer, id = 'e'): Promise<void> {
  const answer = await server.api('POST', '/api/endpoints', { id });
  assert.equal(answer.status, 200, answer.text);
}

/** The state that a rejected request must not change. */
async function everything(server: TestServer): Promise<unknown> {
  const [jobs, queues, endpoints] = await Promise.all(
    ['/api/jobs?limit=200', '/api/queues', '/api/endpoints'].map((path) => server.api('GET', path)),
  );
  return [jobs!.json(), queues!.json(), endpoints!.json()];
}

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

async function writeSql(
  t: TestContext,
  server: TestServer,
  statements: readonly (readonly [sql: string, ...params: string[]])[],
): Promise<void> {
  if (!onPostgres) {
    const db = new DatabaseSync(join(server.home, 'errand.sqlite'));
    for (const [sql, ...params] of statements) db.prepare(sql).run(...params);
    return db.close();
  }
  const store = await openReader(t, serverEnv(server.home).ERRAND_STORE!);
  await store.commit(statements.map(([sql, ...params]) => ({ sql, params })));
}
