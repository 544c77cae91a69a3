// No data is lost behind a cursor: for every operation and dialect tool whose response has one, following it returns
// everything exactly once, whatever the byte budget of the response. The list of operations decides what is tested.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { allMigrations, dialects } from '../src/app.ts';
import { ToolRegistry } from '../src/interfaces/mcp/toolsets.ts';
import { z, type CallContext } from '../src/operation.ts';
import { jsonBytes } from '../src/runtime/response-budget.ts';
import { startApp, type TestApp } from './helpers/app.ts';
import { listen } from './helpers/listener.ts';
import { migratedDatabase } from './helpers/postgres.ts';
import { until } from './helpers/until.ts';

type Fields = Record<string, unknown>;

/** From the smallest useful budget to the budget of the MCP interface. */
const budgets = [1000, 1700, 5000, 30_000];
const pageBytes = 9000;
const later = '2999-01-01T00:00:00Z';

/** How to follow a cursor: the items of a response as text, and the input of the next call. */
interface Way {
  input: Fields;
  items(out: Fields): string[];
  next(out: Fields): Fields | undefined;
  /** Items are the pieces of one text. */
  text?: true;
  /** From the end to the beginning. */
  backward?: true;
}

const list = (field: string, key: string) => (out: Fields) =>
  (out[field] as Fields[]).map((item) => String(item[key]));
const cursor = (out: Fields) =>
  out.nextCursor === undefined ? undefined : { cursor: out.nextCursor };
const offset = (out: Fields) =>
  out.nextOffset === undefined ? undefined : { offset: out.nextOffset };
const piece = (field: string) => (out: Fields) => [String(out[field])];

interface World extends TestApp {
  ways: Record<string, Way>;
  toolWays: Record<string, Way>;
}

async function createWorld(t: TestContext, store: 'sqlite' | 'postgres'): Promise<World> {
  const env = store === 'postgres' ? { ERRAND_STORE: await databaseUrl() } : undefined;
  const body = 'A "quoted" line with \\ and ünïcode.\n\n'.repeat(pageBytes / 40);
  const site = await listen(t, (request, response) => {
    response.setHeader('content-type', 'text/html');
    const links = Array.from({ length: 8 }, (_, n) => `<a href="/p${n}">p${n}</a>`).join(' ');
    response.end(
      `<title>${request.url}</title><main>${links}<p>Page ${request.url}. ${body}</p></main>`,
    );
  });
  const base = await startApp(
    t,
    {
      egress: { allow: ['127.0.0.1'] },
      web: { browser: { path: '/nonexistent' } },
      escrow: { openWallets: false },
    },
    env ? { env } : {},
  );
  const { call } = base;
  const id = async (name: string, input: Fields) => (await call<{ id: string }>(name, input)).id;
  const times = async (count: number, run: (n: number) => Promise<unknown>) => {
    for (let n = 0; n < count; n++) await run(n);
  };

  const word = 'w'.repeat(120);
  await times(25, (n) =>
    call('run_command', { argv: ['true', word], runAt: later, waitMs: 0, name: `queued-${n}` }),
  );
  const script = `for (let i = 0; i < 700; i++) console.log(i + ' "quoted" \\\\ \\t \\u001b[1mbold\\u001b[0m ' + 'xyz'.repeat(i % 9))`;
  const { id: printed } = await call<{ id: string }>('run_command', {
    argv: [process.execPath, '-e', script],
    waitMs: 50_000,
  });

  await times(9, (n) => call('save_endpoint', { id: `e${n}`, ttlMs: 20_000 }));
  await call('ping_worker', { endpointId: 'e0', workerId: 'w1' });
  await times(9, () => call('run_endpoint', { endpointId: 'e1', input: { word }, waitMs: 0 }));
  const batchId = await id('draft_batch', {
    endpointId: 'e1',
    requests: Array.from({ length: 12 }, () => ({ input: { word } })),
  });
  const streamed = await id('run_endpoint', { endpointId: 'e0', input: {}, waitMs: 0 });
  const worker = { endpointId: 'e0', workerId: 'w1' };
  await call('take_jobs', { ...worker, count: 1, waitMs: 5000 });
  await times(15, (n) =>
    call('add_stream_chunk', { ...worker, jobId: streamed, body: posted(`${n} ${word}`) }),
  );
  const result = { text: `"${word}\\n`.repeat(60) };
  await call('finish_endpoint_job', { ...worker, jobId: streamed, body: posted(result) });

  const hookJobs: string[] = [];
  const hook = await id('create_webhook', { url: `${site}/hook`, events: ['cancelled'] });
  await times(8, async () => {
    const job = await id('run_command', { argv: ['true'], runAt: later, waitMs: 0 });
    hookJobs.push(job);
    await call('cancel_job', { id: job });
  });
  await until('the deliveries exist', async () => {
    const { deliveries } = await call<{ deliveries: unknown[] }>('list_deliveries', { id: hook });
    return deliveries.length === hookJobs.length;
  });

  const wallet = await id('create_wallet', { name: 'mine' });
  const { id: other } = await call<{ id: string }>(
    'create_wallet',
    { name: 'other' },
    { caller: { owner: 'bob' } },
  );
  await call('mint_credit', { wallet, amount: '1000', transferId: 'm1' });
  await times(9, (n) =>
    call('send_payment', {
      wallet,
      to: other,
      amount: '1',
      memo: `${n} ${word}`,
      idempotencyKey: `pay-${n}`,
    }),
  );
  await times(7, (n) =>
    call('post_work', {
      wallet,
      provider: other,
      budget: '1000',
      title: `work ${n}`,
      description: word,
      idempotencyKey: `work-${n}`,
    }),
  );

  const { id: crawl } = await call<{ id: string }>('crawl_site', {
    url: site,
    maxPages: 9,
    delayMs: 0,
  });
  await until('the crawl ends', async () => {
    const { status } = await call<{ status: string }>('get_job', { id: crawl });
    return status === 'completed';
  });

  const sinceNext = (out: Fields) => (out.next === out.size ? undefined : { from: out.next });
  const ways: World['ways'] = {
    list_jobs: { input: { kind: ['command'], limit: 11 }, items: list('jobs', 'id'), next: cursor },
    list_events: { input: { id: streamed, limit: 9 }, items: list('events', 'n'), next: cursor },
    list_deliveries: { input: { id: hook }, items: list('deliveries', 'id'), next: cursor },
    read_output: {
      input: { id: printed, mode: 'since', from: 0, raw: true, maxBytes: 65_536 },
      items: piece('text'),
      next: sinceNext,
      text: true,
    },
    'read_output tail': {
      input: { id: printed, mode: 'tail', raw: true, maxBytes: 65_536 },
      items: piece('text'),
      next: ({ from }) => (from === 0 ? undefined : { to: from }),
      text: true,
      backward: true,
    },
    'read_output grep': {
      input: { id: printed, pattern: 'quoted', maxBytes: 65_536 },
      items: (out) => String(out.text).split('\n').filter(Boolean),
      next: (out) => (out.omitted === undefined ? undefined : { from: out.next }),
    },
    follow_stream: { input: { id: streamed, limit: 9 }, items: list('chunks', 'n'), next: cursor },
    read_job_result: { input: { id: streamed }, items: piece('text'), next: offset, text: true },
    list_batch_jobs: { input: { batchId }, items: list('jobs', 'id'), next: offset },
    list_endpoints: {
      input: {},
      items: list('endpoints', 'id'),
      next: ({ next }) => (next === undefined ? undefined : { after: next }),
    },
    list_endpoint_jobs: {
      input: { endpointId: 'e1', limit: 5 },
      items: list('jobs', 'id'),
      next: ({ next }) => (next === undefined ? undefined : { cursor: next }),
    },
    list_work: { input: { role: 'client', wallet }, items: list('work', 'id'), next: cursor },
    list_payments: { input: { wallet, limit: 4 }, items: list('payments', 'id'), next: offset },
    read_pages: {
      input: { id: crawl, fields: ['markdown'], maxBytes: 1_000_000 },
      items: list('pages', 'url'),
      next: cursor,
    },
    read_page: {
      input: { url: `${site}/p1`, maxAgeMs: 600_000 },
      items: piece('markdown'),
      next: offset,
      text: true,
    },
  };
  const paged = (out: Fields) => (out.pagination as Fields).nextCursor;
  const toolWays: World['toolWays'] = {
    'runpod list-endpoints': {
      input: {},
      items: list('items', 'id'),
      next: (out) => (paged(out) === undefined ? undefined : { cursor: paged(out) }),
    },
    'runpod stream-job': {
      input: { endpointId: 'e0', jobId: streamed },
      items: list('stream', 'output'),
      next: ({ pollingTimedOut }) => (pollingTimedOut ? {} : undefined),
    },
    'searchclaw job_status': {
      input: { job_id: crawl },
      items: (out) => ((out.data ?? []) as Fields[]).map(({ url }) => String(url)),
      next: (out) =>
        out.next_cursor === null || (out.data as unknown[]).length === 0
          ? undefined
          : { cursor: out.next_cursor },
    },
    'searchclaw markdown': {
      input: { url: `${site}/p1` },
      items: piece('markdown'),
      next: (out) => (out.next_offset === undefined ? undefined : { offset: out.next_offset }),
      text: true,
    },
    'cardzero list_payments': {
      input: { limit: 100 },
      items: list('payments', 'id'),
      next: () => undefined,
    },
  };
  return { ...base, ways, toolWays };
}

/** In the format that workers send. */
const posted = (output: unknown): Buffer => Buffer.from(JSON.stringify({ output }));

const databaseUrl = (): Promise<string> => migratedDatabase(allMigrations());

export function testBudgets(store: 'sqlite' | 'postgres'): void {
  test(`${store}: following a cursor returns everything once, for every budget`, async (t) => {
    const world = await createWorld(t, store);
    const { operations } = world.app;
    const context = (maxResponseBytes?: number): CallContext => ({
      caller: {
        owner: 'me',
        scopes: new Set(['read', 'run', 'worker', 'admin']),
        admin: true,
        local: true,
      },
      signal: new AbortController().signal,
      ...(maxResponseBytes === undefined ? {} : { maxResponseBytes }),
    });
    await t.test('every operation with a cursor is tested', () => {
      const paging = operations.list().filter(({ pages, effect }) => pages && effect === 'read');
      assert.deepEqual(
        paging.map(({ name }) => name).toSorted(),
        [...new Set(Object.keys(world.ways).map(operationOf))].toSorted(),
      );
      const silent = operations.list().filter(({ pages, output }) => !pages && hasCursor(output));
      assert.deepEqual(
        silent.map(({ name }) => name),
        [],
        'an operation with a cursor must set `pages` and respect the budget',
      );
    });
    for (const [name, way] of Object.entries(world.ways)) {
      await t.test(name, async () => {
        const whole = await follow(
          way,
          (input) => operations.call(operationOf(name), input, context()) as Promise<Fields>,
        );
        assert.ok(whole.items.length > 1 || way.text, `${name} has something to page through`);
        for (const budget of budgets) {
          const cut = await follow(
            way,
            (input) =>
              operations.call(operationOf(name), input, context(budget)) as Promise<Fields>,
          );
          compare(way, cut.items, whole.items, `${name} with ${budget} bytes`);
          if (way.text || budget > 2000)
            assert.ok(cut.maxBytes <= budget, `${name}: ${cut.maxBytes} of ${budget} bytes`);
        }
      });
    }
    await t.test('every dialect tool with a cursor is tested', () => {
      const paging = dialects.flatMap((dialect) =>
        (dialect.tools ?? [])
          .filter(({ pages }) => pages)
          .map(({ name }) => `${dialect.name} ${name}`),
      );
      const known = new Set(Object.keys(world.toolWays));
      // This list has no cursor because it is always complete (test/dialects/background-job/tools.test.ts).
      const missing = paging.filter(
        (name) => !known.has(name) && !name.startsWith('background-job'),
      );
      assert.deepEqual(missing, []);
    });
    const registry = new ToolRegistry(operations, dialects);
    for (const [name, way] of Object.entries(world.toolWays)) {
      const [dialect, toolName] = name.split(' ') as [string, string];
      const tool = registry.select({ dialects: [dialect] }).tools.get(toolName)!;
      // Each item is returned only once, so it can be followed only once.
      const tried = toolName === 'stream-job' ? [1000] : [undefined, 1700, 30_000];
      const seen = new Map<number | undefined, string[]>();
      await t.test(name, async () => {
        for (const budget of tried) {
          const { items } = await follow(way, async (input) => {
            const answer = await tool.run(input, context(budget));
            assert.equal(answer.isError, undefined, answer.text);
            return (answer.structured ?? JSON.parse(answer.text!)) as Fields;
          });
          seen.set(budget, items);
          compare(way, items, seen.get(tried[0])!, `${name} with ${budget} bytes`);
        }
        if (toolName === 'stream-job') assert.equal(seen.get(1000)!.length, 15);
      });
    }
  });
}

/** The operation name. A second word distinguishes several entries for one operation. */
const operationOf = (name: string): string => name.split(' ')[0]!;

async function follow(way: Way, call: (input: Fields) => Promise<Fields>) {
  const items: string[] = [];
  let maxBytes = 0;
  let more: Fields | undefined = {};
  for (let calls = 0; more !== undefined; calls++) {
    assert.ok(calls < 500, 'the cursor does not advance');
    const out: Fields = await call({ ...way.input, ...more });
    if (way.backward) items.unshift(...way.items(out));
    else items.push(...way.items(out));
    maxBytes = Math.max(maxBytes, jsonBytes(out));
    more = way.next(out);
  }
  return { items, maxBytes };
}

function compare(way: Way, cut: string[], whole: string[], what: string): void {
  if (way.text) return assert.equal(cut.join(''), whole.join(''), what);
  assert.equal(new Set(cut).size, cut.length, `${what}: something came twice`);
  assert.deepEqual(cut, whole, what);
}

const cursorFields = new Set(['nextCursor', 'nextOffset', 'laterCursor', 'hasMore']);

/** A number named `next` is a cursor; a string with that name is a hint. */
function hasCursor(output: z.ZodType): boolean {
  const { properties = {} } = z.toJSONSchema(output, { unrepresentable: 'any' }) as {
    properties?: Record<string, { type?: string }>;
  };
  return (
    properties.next?.type === 'number' ||
    Object.keys(properties).some((name) => cursorFields.has(name))
  );
}
