// Invariants for every generated request: (a) everything that was stored can be listed, shown, cancelled, purged and swept;
// (b) a refused request has no effect, and an error that reports failed work contains the job id.
import assert from 'node:assert/strict';
import { Agent, request as open } from 'node:http';
import type { TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';
import type { Change, Changes } from './changes.ts';
import { nameOf, type Generator, type Json, type Request, type Route } from './generate.ts';

interface Answer {
  status: number;
  text: string;
  refused: boolean;
}

interface Exchange {
  answer: Promise<Answer>;
  hangUp(): void;
}

interface Sent {
  answer: Answer | undefined;
  changes: Change[];
}

/** These operations respond only when something happens, and no web job runs here. The client closes the connection. */
const held = new RegExp(
  [
    '/v2/\\{endpointId\\}/(job-stop|job-take|openai|stream|runsync|status-sync)',
    '/v2/serverless/.*logs$',
    '/(searchclaw/v1|firecrawl/v[12]|api/web)/',
    '^MCP (web_|run_agent|run_pipeline|run_command|crawl_|wait_)',
  ].join('|'),
);
/** Number of later requests that an aborted call may disturb: a worker is added, a job is assigned and returned. */
const latePerCut = 3;
const maxCuts = 5;

export class Fuzz {
  private readonly server: TestServer;
  private readonly generator: Generator;
  private readonly changes: Changes;
  private readonly routes: Route[];
  private readonly agent = new Agent({ keepAlive: true });
  private readonly cuts = new Map<string, number>();
  private readonly called = new Set<string>();
  /** Number of further requests that aborted calls may disturb. */
  private late = 0;
  readonly counts = { sent: 0, refused: 0, accepted: 0, cut: 0 };

  constructor(parts: {
    server: TestServer;
    generator: Generator;
    changes: Changes;
    routes: Route[];
  }) {
    this.server = parts.server;
    this.generator = parts.generator;
    this.changes = parts.changes;
    this.routes = parts.routes;
  }

  /** Every route of the OpenAPI document, and every operation as a tool. */
  static async routes(server: TestServer): Promise<Route[]> {
    const document = (await server.api('GET', '/openapi.json')).json<{
      paths: Record<string, Record<string, { operationId: string }>>;
    }>();
    const catalog = (await server.api('GET', '/internal/operations')).json<{
      operations: { name: string; input: Json }[];
    }>();
    const schemas = new Map(catalog.operations.map(({ name, input }) => [name, input]));
    const paths = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => {
        const schema = schemas.get(operationId);
        return { method: method.toUpperCase(), path, ...(schema ? { schema } : {}) };
      }),
    );
    const tools = [...schemas].map(([path, schema]) => ({ method: 'MCP', path, schema }));
    return [...paths, ...tools];
  }

  async run(count: number): Promise<void> {
    await this.settled();
    for (let i = 0; this.counts.sent < count; i++) {
      // First every route once, then random routes.
      const route = i < this.routes.length ? this.routes[i]! : this.generator.pick(this.routes);
      if ((this.cuts.get(nameOf(route)) ?? 0) < maxCuts) await this.one(route);
      // The job may have been deleted.
      if (i % 50 === 0) {
        await this.server.api('POST', '/api/endpoints', { id: 'e' });
        await this.settled();
      }
    }
    for (const route of this.routes)
      for (const request of this.generator.excessiveFor(route)) await this.one(route, request);
    assert.equal(this.called.size, this.routes.length, 'every route was called');
    this.agent.destroy();
  }

  private async one(route: Route, request = this.generator.requestFor(route)): Promise<void> {
    this.called.add(nameOf(route));
    this.counts.sent += 1;
    const { answer, changes } = await this.send(request, route);
    if (!answer) return this.settling();
    this.generator.learn(answer.text);
    const shown = `#${this.counts.sent} ${request.method} ${request.path} ${request.body?.slice(0, 600) ?? ''} → ${answer.status} ${answer.text.slice(0, 600)}`;
    assert.notEqual(answer.status, 500, `${shown}\n${this.server.stderr().slice(-2000)}`);
    assert.doesNotMatch(answer.text, /"code":\s?"internal"|^internal:/, shown);
    if (!answer.refused) {
      this.counts.accepted += 1;
      // Routes of dialects may ignore the body, or a field of it.
      assert.ok(!request.excessive || !route.schema, `over a limit, accepted: ${shown}`);
      return changes.length === 0 ? undefined : this.settling();
    }
    this.counts.refused += 1;
    if (changes.length === 0) return;
    if (reports(changes, answer)) return this.repeated(request, route, shown);
    const own = changes.filter((change) => !isBackground(change));
    if (own.length === 0) return;
    const isLate = this.late > 0 && !(await this.hasEffect(request, route));
    assert.ok(isLate, `a refused request had an effect: ${shown}\n${JSON.stringify(own, null, 2)}`);
    this.late -= 1;
  }

  /**
   * An aborted call may write something during a later request. A change after such a call counts only if it happens again
   * while the server is idle.
   */
  private async hasEffect(request: Request, route: Route): Promise<boolean> {
    for (let repeats = 0; repeats < 2; repeats++) {
      await this.settling();
      const { answer, changes } = await this.send(request, route);
      if (!answer?.refused || changes.every(isBackground)) return false;
    }
    return true;
  }

  /** A repeated request with the same idempotency key does no work. */
  private async repeated(request: Request, route: Route, shown: string): Promise<void> {
    await this.settled();
    if (!/idempotencyKey\\?":\\?"/.test(request.body ?? '')) return;
    const before = await this.changes.jobs();
    await this.send(request, route);
    await this.settled();
    assert.equal((await this.changes.jobs()).size, before.size, `the work was repeated: ${shown}`);
  }

  /** Waits until the server is idle. Discards the changes up to then. */
  private async settled(): Promise<void> {
    for (let empty = (await this.changes.take()).length === 0 ? 2 : 0; empty < 2;) {
      await this.beat();
      empty = (await this.changes.take()).length === 0 ? empty + 1 : 0;
    }
  }

  private async settling(): Promise<void> {
    await this.beat();
    await this.settled();
  }

  /** Makes a complete read call, which gives earlier work time to proceed. */
  private async beat(): Promise<void> {
    await this.exchange({ method: 'GET', path: '/api/jobs?limit=1', key: this.server.key }).answer;
  }

  /** Undefined: the call waits for something that does not happen, and the client closed the connection. */
  private async send(request: Request, route: Route): Promise<Sent> {
    const { answer, hangUp } = this.exchange(request);
    if (!held.test(nameOf(route)))
      return { answer: await answer, changes: await this.changes.take() };
    const changes: Change[] = [];
    for (let empty = 0; empty < 6; empty++) {
      const now = await Promise.race([answer, this.beat()]);
      const some = await this.changes.take();
      if (now) return { answer: now, changes: [...changes, ...some] };
      if (some.length > 0) empty = 0;
      changes.push(...some);
    }
    hangUp();
    this.late += latePerCut;
    this.counts.cut += 1;
    this.cuts.set(nameOf(route), (this.cuts.get(nameOf(route)) ?? 0) + 1);
    return { answer: undefined, changes };
  }

  private exchange({ method, path, body, key }: Omit<Request, 'excessive'>): Exchange {
    const call = open(this.server.url + path, {
      method,
      agent: this.agent,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        accept: 'application/json, text/event-stream',
      },
    });
    let isHungUp = false;
    const answer = new Promise<Answer>((resolve, reject) => {
      let text = '';
      call.once('response', (response) => {
        const status = response.statusCode!;
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.once('error', () => {});
        response.once('end', () =>
          resolve({ status, text, refused: status >= 400 || isToolError(path, text) }),
        );
      });
      call.once('error', (cause) => {
        if (!isHungUp) reject(new Error(`${method} ${path} ${body?.slice(0, 600)}`, { cause }));
      });
    });
    call.end(body);
    const hangUp = () => {
      isHungUp = true;
      call.destroy();
    };
    return { answer, hangUp };
  }

  /** Invariant (a): everything stored can be listed, shown, cancelled and purged. */
  async checkStored(): Promise<void> {
    await this.settled();
    const jobs: { id: string; kind: string; status: string; undecodable?: string[] }[] = [];
    for (let cursor = ''; ;) {
      const page = await this.server.api('GET', `/api/jobs?limit=200${cursor}`);
      assert.equal(page.status, 200, page.text);
      const { jobs: some, nextCursor } = page.json<{ jobs: typeof jobs; nextCursor?: string }>();
      jobs.push(...some);
      if (nextCursor === undefined) break;
      cursor = `&cursor=${nextCursor}`;
    }
    assert.ok(jobs.length > 0, 'something was stored');
    assert.deepEqual(new Set(jobs.map(({ id }) => id)), await this.changes.jobs());
    assert.deepEqual(
      jobs.filter(({ undecodable }) => undecodable !== undefined),
      [],
      'everything that was stored can be decoded',
    );
    for (const { id, kind } of jobs) {
      const whole = `/api/jobs/${id}?includeInput=true&includeAttempts=true&includeResult=true`;
      for (const path of [whole, `/api/jobs/${id}/events`]) {
        const shown = await this.server.api('GET', path);
        assert.equal(shown.status, 200, shown.text);
      }
      const unpinned = await this.server.api('POST', `/api/jobs/${id}/pin`, { pinned: false });
      assert.equal(unpinned.status, 200, unpinned.text);
      const cancelled = await this.server.api('POST', `/api/jobs/${id}/cancel`, { graceMs: 0 });
      assert.ok(cancelled.status === 200 || kind === 'escrow', `${id}: ${cancelled.text}`);
    }
    const endpoints = (await this.server.api('GET', '/api/endpoints?limit=1000')).json<{
      endpoints: { id: string }[];
    }>();
    for (const { id } of endpoints.endpoints) {
      const path = `/api/endpoints/${encodeURIComponent(id)}`;
      assert.equal((await this.server.api('POST', `${path}/purge`, {})).status, 200);
      assert.equal((await this.server.api('DELETE', path)).status, 200);
    }
    for (const name of ['list_queues', 'list_batches'])
      assert.ok(
        (await this.server.api('POST', `/internal/operations/${name}`, { endpointId: 'e' }))
          .status < 500,
      );
  }
}

function isToolError(path: string, text: string): boolean {
  if (!path.startsWith('/mcp')) return false;
  const { error, result } = JSON.parse(text.replace(/^[^]*?^data: (?=\{)/m, '')) as {
    error?: unknown;
    result?: { isError?: boolean };
  };
  return error !== undefined || result?.isError === true;
}

/** The response contains the id of the created job. */
const reports = (changes: Change[], { text }: Answer): boolean =>
  changes.some(
    ({ table, op, row }) => table === 'jobs' && op === 'I' && text.includes(String(row.id)),
  );

/**
 * Background changes that may occur during a later request: webhook deliveries and their retries, and batches that count
 * their jobs some time after they ended. No other change is tolerated.
 */
function isBackground({ table, op, row }: Change): boolean {
  if (table === 'deliveries' || table === 'marks') return true;
  if (/^counter/.test(table)) return String(row.scope).startsWith('queue:batch:');
  if (table === 'jobs') return op === 'U' && row.kind === 'batch';
  return (
    table === 'events' &&
    op === 'I' &&
    /^(progress|completed)$/.test(String(row.type)) &&
    /"total":/.test(String(row.data))
  );
}

/** After a start with a retention age of 0, all ended jobs are deleted. */
export async function checkSweep(server: TestServer): Promise<void> {
  await until('all ended jobs are deleted', async () => {
    const { jobs } = (await server.api('GET', '/api/jobs?limit=200')).json<{
      jobs: { kind: string; status: string }[];
    }>();
    const left = jobs.filter(
      ({ kind, status }) =>
        kind !== 'escrow' && /completed|failed|cancelled|timed_out/.test(status),
    );
    assert.deepEqual(left, []);
    return true;
  });
}
