// Every call that waits for work: if the work fails, the response names its job, and the same request with the same
// idempotency key returns that job without repeating it. A new waiting operation that is not covered here fails this test.
import assert from 'node:assert/strict';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { listen } from '../helpers/listener.ts';
import { startServer, type ApiResponse, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
/** Operations that wait but start no new work, or that only dialects use. */
const waitsOnly =
  /^(wait_for_jobs|retry_job|retry_endpoint_job|get_endpoint_job|drain_stream|take_jobs|poll_stops|submit_endpoint_job|send_input)$/;

type Row = [path: string, body: object];

interface Case {
  /** Used in failure messages. */
  name: string;
  send(key: string): Promise<ApiResponse>;
  /** How often the work was observed to start. */
  runs?(): number;
}

test('the response names the failed job, and the same key does not repeat it', async (t) => {
  let requests = 0;
  const site = await listen(t, (incoming) => {
    if (incoming.url !== '/robots.txt') requests += 1;
    incoming.socket.destroy();
  });
  const home = homeWith(t, {
    egress: { allow: ['127.0.0.1'] },
    web: {
      browser: { path: '/nonexistent' },
      search: { engines: ['searxng'], searxngUrl: site },
      model: { url: `${site}/v1`, name: 'none' },
    },
  });
  const server = await startServer(t, { home });
  await server.api('POST', '/api/endpoints', { id: 'e' });
  const marks = join(tempFolder(t), 'marks');
  appendFileSync(marks, '');
  const ran = () => (existsSync(marks) ? readFileSync(marks, 'utf8').length : 0);
  const url = `${site}/page`;
  const seen = () => requests;

  /** Input that makes each operation start failing work. */
  const inputs: Record<string, object> = {
    run_command: { command: `printf x >> '${marks}'; exit 3` },
    run_endpoint: { endpointId: 'e', input: {} },
    read_page: { url },
    extract_data: { url, schema: { title: 'string' } },
    map_site: { url },
    take_screenshot: { url },
    browse_page: { url, actions: [{ type: 'snapshot' }] },
    web_search: { query: 'x' },
    run_pipeline: { query: 'x', schema: { type: 'object', properties: { a: { type: 'string' } } } },
    run_agent: { prompt: 'x', urls: [url], onlyUrls: true },
  };
  const catalog = (await server.api('GET', '/internal/operations')).json<{
    operations: { name: string; input: { properties?: Record<string, unknown> } }[];
  }>();
  const waiting = catalog.operations
    .filter(({ name, input }) => input.properties?.waitMs && !waitsOnly.test(name))
    .map(({ name }) => name);
  assert.deepEqual([...new Set(waiting)].toSorted(), Object.keys(inputs).toSorted());

  const operations = Object.entries(inputs).map(([name, input]): Case => ({
    name,
    send: (idempotencyKey) =>
      server.api('POST', `/internal/operations/${name}`, {
        ...{ ...input, idempotencyKey, waitMs: 40_000 },
      }),
    runs: name === 'run_command' ? ran : seen,
  }));
  const routes: Row[] = [
    ['/api/web/read', { url }],
    ['/firecrawl/v2/scrape', { url }],
    ['/firecrawl/v1/scrape', { url }],
    // A list with one page, which is tried several times.
    ...(deep
      ? [['/firecrawl/v2/scrape', { url, formats: [{ type: 'changeTracking' }] }] as Row]
      : []),
    ['/firecrawl/v2/map', { url }],
    ['/firecrawl/v2/search', { query: 'x' }],
    ['/searchclaw/v1/search', { q: 'x' }],
    ['/searchclaw/v1/markdown', { url }],
    ['/searchclaw/v1/extract', { url, schema: { title: 'string' } }],
    ['/searchclaw/v1/map', { url }],
    ['/searchclaw/v1/screenshot', { url }],
    ['/searchclaw/v1/browse', { url, actions: [{ type: 'snapshot' }] }],
    ['/v2/e/runsync', { input: {} }],
  ];
  const known = new Set(
    Object.keys((await server.api('GET', '/openapi.json')).json<Paths>().paths),
  );
  for (const [path] of routes) assert.ok(known.has(path.replace('/e/', '/{endpointId}/')), path);
  const cases = [
    ...operations,
    ...routes.map(([path, body]): Case => ({
      name: `POST ${path}`,
      send: (key) =>
        server.api('POST', path, body, { 'idempotency-key': key, 'x-idempotency-key': key }),
      runs: seen,
    })),
  ];
  for (const [i, one] of cases.entries()) await checked(server, one, `key-${i}`);
});

interface Paths {
  paths: Record<string, unknown>;
}

async function checked(server: TestServer, { name, send, runs }: Case, key: string) {
  const before = await idsOf(server);
  const first = await failing(server, send(key));
  const made = [...(await idsOf(server))].filter((id) => !before.has(id));
  assert.ok(made.length > 0, `${name} started a job: ${first.text}`);
  assert.ok(
    made.some((id) => first.text.includes(id)),
    `${name} names ${made.join()}: ${first.status} ${first.text}`,
  );
  assert.doesNotMatch(first.text, /"status":\s?"completed"/i, name);
  const count = runs?.();
  const second = await send(key);
  assert.ok(
    made.some((id) => second.text.includes(id)),
    `${name} names the same job again: ${second.status} ${second.text}`,
  );
  assert.equal(second.status, first.status, `${name}: ${second.text}`);
  const after = [...(await idsOf(server))].filter((id) => !before.has(id));
  assert.deepEqual(after, made, `${name} was repeated`);
  assert.equal(runs?.(), count, `${name} was done again`);
}

/** Runs a worker that takes the endpoint's jobs and fails them. */
async function failing(server: TestServer, pending: Promise<ApiResponse>): Promise<ApiResponse> {
  let answer: ApiResponse | undefined;
  void pending.then((found) => (answer = found));
  await until('the call returns', async () => {
    if (answer) return true;
    const { jobs } = (await server.api('GET', '/api/jobs?kind=endpoint&status=queued')).json<{
      jobs: { id: string }[];
    }>();
    if (jobs.length === 0) return false;
    const taken = await server.api('GET', '/v2/e/job-take/w1');
    const { id } = taken.json<{ id: string }>();
    await server.api('POST', `/v2/e/job-done/w1/${id}`, { error: 'it failed' });
    return false;
  });
  return answer!;
}

async function idsOf(server: TestServer): Promise<Set<string>> {
  const { jobs } = (await server.api('GET', '/api/jobs?limit=200')).json<{
    jobs: { id: string }[];
  }>();
  return new Set(jobs.map(({ id }) => id));
}
