// Requests generated from the operation list and every route, and what must hold for all of them: (a) what was stored can
// be listed, shown, cancelled, purged and swept; (b) a refused request has no effect, and an error that reports failed work
// names its job.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { PostgresStore } from '../src/store/postgres/postgres.ts';
import type { TestServer } from './helpers/server.ts';
import { until } from './helpers/until.ts';

type Json = Record<string, unknown>;

export interface Snapshot {
  text: string;
  jobs: ReadonlySet<string>;
}

/** The whole state outside of memory: rows and files. */
export interface State {
  read(): Promise<Snapshot>;
  close(): void;
}

/** Rows that change by themselves or with every request. */
const volatile = /^(sqlite_|nodes$|node_|swept|pgboss|web_search|.*_fts|usage|web_usage|schema)/;
const volatileColumns = new Set(['used_at', 'seen_at', 'last_used_at', 'wakes']);

export function sqliteState(home: string): State {
  const db = new DatabaseSync(join(home, 'errand.sqlite'), { readOnly: true });
  const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const reads = tables
    .map(({ name }) => String(name))
    .filter((name) => !volatile.test(name))
    .map((name) => {
      const columns = db.prepare(`PRAGMA table_info(${name})`).all();
      const kept = columns
        .map((one) => String(one.name))
        .filter((one) => !volatileColumns.has(one));
      return {
        name,
        rows: db.prepare(`SELECT ${kept.map((one) => `"${one}"`).join(', ')} FROM ${name}`),
      };
    });
  const version = db.prepare('PRAGMA data_version');
  const ids = db.prepare('SELECT id FROM jobs');
  let known: { version: unknown; snapshot: Snapshot; files: string } | undefined;
  return {
    read: async () => {
      const files = filesOf(home);
      const now = version.get()!.data_version;
      if (known && known.version === now && known.files === files) return known.snapshot;
      const parts = reads.map(({ name, rows }) => `${name} ${hash(JSON.stringify(rows.all()))}`);
      const jobs = new Set(ids.all().map(({ id }) => String(id)));
      const snapshot = { text: [...parts, files].join('\n'), jobs };
      known = { version: now, snapshot, files };
      return snapshot;
    },
    close: () => db.close(),
  };
}

export async function postgresState(home: string, store: PostgresStore): Promise<State> {
  const columns = await store.read<{ table: string; column: string }>(
    `SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns
     WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`,
  );
  const tables = new Map<string, string[]>();
  for (const { table, column } of columns)
    if (!volatile.test(table) && !volatileColumns.has(column))
      tables.set(table, [...(tables.get(table) ?? []), column]);
  const sql = [...tables]
    .map(([name, list]) => {
      const row = `row(${list.map((one) => `"${one}"`).join(', ')})::text`;
      return `SELECT '${name}' AS name, md5(coalesce(string_agg(${row}, '' ORDER BY ${row}), '')) AS sum FROM ${name}`;
    })
    .join(' UNION ALL ');
  return {
    read: async () => {
      const sums = await store.read<{ name: string; sum: string }>(sql);
      const ids = await store.read<{ id: string }>('SELECT id FROM jobs');
      const parts = sums.map(({ name, sum }) => `${name} ${sum}`);
      const text = [...parts, filesOf(home)].join('\n');
      return { text, jobs: new Set(ids.map(({ id }) => id)) };
    },
    close: () => {},
  };
}

const hash = (text: string): string => createHash('sha1').update(text).digest('hex');

function filesOf(home: string): string {
  const found: string[] = [];
  const walk = (folder: string) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (/\.sqlite|\.log$|\.pid$|\.sock/.test(entry.name)) continue;
      if (entry.isDirectory()) walk(path);
      else if (entry.isFile())
        found.push(`${path} ${statSync(path, { throwIfNoEntry: false })?.size}`);
    }
  };
  walk(home);
  return found.join('\n');
}

export interface Request {
  method: string;
  path: string;
  body?: string;
  key?: string | undefined;
}

export interface Answer {
  status: number;
  text: string;
}

interface Route {
  method: string;
  path: string;
  schema?: Json;
}

/** Small, fast and good enough to pick values: mulberry32. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}1${']'.repeat(depth)}`);
const oddStrings = [
  '',
  ' ',
  'x',
  'constructor',
  '__proto__',
  'toString',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '💥',
  '../../etc',
  "'; DROP TABLE jobs",
  'x'.repeat(5000),
  '%00',
  'null',
  '-1',
  'job_0000000000000000',
  'http://127.0.0.1:1/',
  'https://user:pw@host.invalid/',
  'file:///etc/passwd',
  '2020-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '0x0000000000000000000000000000000000000001',
];
const oddNumbers = [0, -1, 1, 1.5, 2, 7, 1000, 2 ** 31, 2 ** 53, 1e21, 1e308, -1e-7];
const fieldPool = [
  'url',
  'urls',
  'q',
  'query',
  'limit',
  'formats',
  'input',
  'policy',
  'webhook',
  'schema',
  'prompt',
  'name',
  'id',
  'ids',
  'budget',
  'amount',
  'to',
  'provider',
  'evaluator',
  'expiry',
  'description',
  'deliverable',
  'contentURI',
  'hash',
  'memo',
  'walletId',
  'max_pages',
  'actions',
  'scrapeOptions',
  'ignoreInvalidURLs',
  'requests',
  'workersMax',
  'scaling',
  'image',
  'env',
  'output',
  'error',
  'constructor',
  '__proto__',
  'timeout',
  'includePaths',
  'sources',
  'model',
  'messages',
  'stream',
  'type',
  'frozen',
  'autoTopUp',
  'dailyLimit',
  'code',
  'maxAmount',
];

/** Never called with a chance of success: they end the server or write where the caller says. */
const kept = new Set(['POST /api/stop_server', 'POST /api/backup_store']);
/** Waits are short: nobody is there to end them. */
const waits = /^(waitMs|timeoutMs|timeout|wait|graceMs|pageTimeoutMs)$/;

export class Fuzz {
  private readonly server: TestServer;
  private readonly random: () => number;
  private readonly state: State;
  private readonly keys: (string | undefined)[];
  private readonly routes: Route[];
  private readonly slow = new Map<string, number>();
  private readonly ids: string[] = ['e', 'default'];
  readonly counts = { sent: 0, refused: 0, accepted: 0, cut: 0, drifted: 0 };
  /** Routes that are known to answer 500 on this store. */
  known: ReadonlySet<string> = new Set();
  private readonly seenRoutes = new Set<string>();

  constructor(parts: {
    server: TestServer;
    random: () => number;
    state: State;
    keys: (string | undefined)[];
    routes: Route[];
  }) {
    this.server = parts.server;
    this.random = parts.random;
    this.state = parts.state;
    this.keys = parts.keys;
    this.routes = parts.routes;
  }

  static async routes(server: TestServer): Promise<Route[]> {
    const document = (await server.api('GET', '/openapi.json')).json<{
      paths: Record<string, Record<string, { operationId: string }>>;
    }>();
    const catalog = (await server.api('GET', '/internal/operations')).json<{
      operations: { name: string; input: Json }[];
    }>();
    const schemas = new Map(catalog.operations.map(({ name, input }) => [name, input]));
    return Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => {
        const schema = schemas.get(operationId);
        return { method: method.toUpperCase(), path, ...(schema ? { schema } : {}) };
      }),
    );
  }

  async run(count: number): Promise<void> {
    let before = await this.quiet();
    for (let i = 0; this.counts.sent < count; i++) {
      // Every route first, then any.
      const route =
        i < this.routes.length * 2 ? this.routes[i % this.routes.length]! : this.pick(this.routes);
      before = await this.one(route, before);
      // It may have been deleted.
      if (i % 50 === 0) before = await this.prepared();
    }
    assert.equal(this.seenRoutes.size, this.routes.length, 'every route was called');
    assert.ok(
      this.counts.drifted <= count / 50,
      `too often not attributable: ${this.counts.drifted}`,
    );
  }

  private async prepared(): Promise<Snapshot> {
    await this.server.api('POST', '/api/endpoints', { id: 'e' });
    return this.quiet();
  }

  private async one(route: Route, before: Snapshot): Promise<Snapshot> {
    const request = this.requestFor(route);
    const name = `${route.method} ${route.path}`;
    this.seenRoutes.add(name);
    const answer = await this.send(request, name);
    // What was cut off may still be under way.
    if (!answer) return this.quiet(150);
    this.counts.sent += 1;
    this.learn(answer.text);
    const shown = `#${this.counts.sent} ${request.method} ${request.path} ${request.body?.slice(0, 400) ?? ''} → ${answer.status} ${answer.text.slice(0, 400)}`;
    if (answer.status === 500 && this.known.has(name)) return this.quiet();
    assert.notEqual(answer.status, 500, `${shown}\n${this.server.stderr().slice(-2000)}`);
    if (answer.status < 400) {
      this.counts.accepted += 1;
      return this.quiet();
    }
    this.counts.refused += 1;
    const after = await this.state.read();
    if (after.text === before.text) return after;
    const fresh = [...after.jobs].filter((id) => !before.jobs.has(id));
    if (fresh.some((id) => answer.text.includes(id))) {
      await this.repeats(request, name, shown);
      return this.quiet();
    }
    // Something that was accepted or cut off before may still go on: only a request that does it again is to blame.
    let last = await this.quiet(50);
    for (let times = 0; times < 2; times++) {
      await this.send(request, name);
      const next = await this.state.read();
      if (next.text === last.text) {
        this.counts.drifted += 1;
        return next;
      }
      if (times === 1)
        assert.fail(
          `a refused request had an effect: ${shown}\n${difference(next.text, last.text)}`,
        );
      last = await this.quiet(50);
    }
    return last;
  }

  /** With its idempotency key the work is not done again. */
  private async repeats(request: Request, name: string, shown: string): Promise<void> {
    if (!request.body?.includes('"idempotencyKey":"')) return;
    const before = await this.quiet();
    await this.send(request, name);
    const after = await this.quiet();
    assert.equal(after.jobs.size, before.jobs.size, `the work was repeated: ${shown}`);
  }

  /** The state once nothing changes any more. */
  private async quiet(ms = 2): Promise<Snapshot> {
    let last = await this.state.read();
    for (let tries = 0; tries < 50; tries++) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      const next = await this.state.read();
      if (next.text === last.text) return next;
      last = next;
    }
    return last;
  }

  private async send(request: Request, name: string): Promise<Answer | undefined> {
    const { method, path, body, key } = request;
    if ((this.slow.get(name) ?? 0) >= 2) return undefined;
    try {
      const response = await fetch(this.server.url + path, {
        method,
        headers: {
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body }),
        signal: AbortSignal.timeout(500),
      });
      return { status: response.status, text: await response.text() };
    } catch {
      this.counts.cut += 1;
      this.slow.set(name, (this.slow.get(name) ?? 0) + 1);
      return undefined;
    }
  }

  private learn(text: string): void {
    for (const [id] of text.matchAll(/\b(?:job|wal|wallet|pay|hook|key|wh)_[0-9a-z]{8,}/g))
      if (!this.ids.includes(id) && this.ids.length < 200) this.ids.push(id);
  }

  private requestFor({ method, path, schema }: Route): Request {
    const name = `${method} ${path}`;
    const where = path.replaceAll(/\{(\w+)\}/g, (_, field: string) =>
      encodeURIComponent(this.idFor(field, path)),
    );
    const input = schema ? this.fromSchema(schema, schema, 0) : this.free(0);
    const fields: Json =
      typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Json) : {};
    if (kept.has(name)) fields.unknownField = 1;
    if (this.chance(0.15)) fields[this.pick(fieldPool)] = this.odd();
    const key = this.chance(0.7) ? this.keys[0] : this.pick(this.keys);
    if (method === 'GET' || method === 'DELETE') {
      const query = new URLSearchParams();
      for (const [field, value] of Object.entries(fields))
        if (!path.includes(`{${field}}`))
          query.set(
            field,
            typeof value === 'string' ? value.toWellFormed() : (JSON.stringify(value) ?? ''),
          );
      const text = query.toString();
      return { method, path: `${where}${text && text.length < 8000 ? `?${text}` : ''}`, key };
    }
    for (const [, field] of path.matchAll(/\{(\w+)\}/g)) delete fields[field!];
    const body = this.chance(0.03)
      ? this.pick(brokenBodies)
      : JSON.stringify(this.chance(0.03) ? this.odd() : fields);
    return { method, path: where, body, key };
  }

  /** Mostly something that is there, of the sort that the name asks for. */
  private idFor(field: string, path = ''): string {
    if (this.chance(0.15)) return this.pick(oddStrings).toWellFormed().slice(0, 60) || 'x';
    if (this.chance(0.05)) return this.pick(this.ids);
    if (field === 'kind') return this.pick(['command', 'endpoint', 'web', 'escrow']);
    if (field === 'name') return 'default';
    if (/endpoint/i.test(field) || /\/(endpoints|serverless)\/\{id\}/.test(path)) return 'e';
    const sort = /wallet/i.test(field) ? 'wal_' : /payment/i.test(field) ? 'pay_' : 'job_';
    return this.pick(this.ids.filter((id) => id.startsWith(sort))) ?? 'job_0000000000000000';
  }

  private fromSchema(schema: Json, root: Json, depth: number, field = ''): unknown {
    if (this.chance(0.06)) return this.odd();
    if (waits.test(field)) return this.pick([0, 1, 5]);
    if (field === 'paused') return true;
    if (field === 'idempotencyKey') return `k${Math.floor(this.random() * 20)}`;
    if (/^(id|jobId|endpointId|walletId|batchId|parent|remove)$/.test(field))
      return this.idFor(field);
    if (typeof schema.$ref === 'string' && depth < 6)
      return this.fromSchema(referred(schema.$ref, root), root, depth + 1, field);
    const options = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
    if (options) return this.fromSchema(this.pick(options), root, depth + 1, field);
    if (schema.const !== undefined) return schema.const;
    if (Array.isArray(schema.enum)) return this.pick(schema.enum);
    switch (this.pick([schema.type].flat())) {
      case 'object':
        return this.object(schema, root, depth);
      case 'array':
        return Array.from({ length: depth > 3 ? 0 : Math.floor(this.random() * 3) }, () =>
          this.fromSchema((schema.items ?? {}) as Json, root, depth + 1),
        );
      case 'integer':
      case 'number':
        return this.within(schema);
      case 'boolean':
        return this.chance(0.5);
      case 'null':
        return null;
      case 'string':
        return this.string(schema);
      default:
        return this.odd();
    }
  }

  private object(schema: Json, root: Json, depth: number): Json {
    const properties = (schema.properties ?? {}) as Record<string, Json>;
    const required = new Set((schema.required ?? []) as string[]);
    const result: Json = {};
    for (const [name, field] of Object.entries(properties)) {
      const isGiven = required.has(name) ? !this.chance(0.05) : this.chance(depth > 2 ? 0.1 : 0.3);
      if (isGiven) result[name] = this.fromSchema(field, root, depth + 1, name);
    }
    return result;
  }

  private within({ minimum, maximum, type }: Json): number {
    const low = typeof minimum === 'number' ? minimum : 0;
    const high = Math.min(typeof maximum === 'number' ? maximum : 100, low + 100_000);
    const value = low + this.random() * (high - low);
    return type === 'integer' ? Math.round(value) : value;
  }

  private string({ format, pattern, maxLength }: Json): string {
    if (format === 'uri') return 'http://127.0.0.1:1/x';
    if (format === 'date-time') return '2099-01-01T00:00:00Z';
    const plain = [
      'e',
      'default',
      'true',
      'x1',
      'text',
      '0x0000000000000000000000000000000000000001',
      '1000000',
    ];
    const text =
      this.chance(0.85) || pattern !== undefined ? this.pick(plain) : this.pick(oddStrings);
    return typeof maxLength === 'number' ? text.slice(0, maxLength) : text;
  }

  private free(depth: number): unknown {
    const result: Json = {};
    const count = Math.floor(this.random() * 5);
    for (let i = 0; i < count; i++) {
      const name = this.pick(fieldPool);
      result[name] = waits.test(name)
        ? 1
        : depth < 2 && this.chance(0.3)
          ? this.free(depth + 1)
          : this.odd();
    }
    return result;
  }

  private odd(): unknown {
    const roll = this.random();
    if (roll < 0.5) return this.pick(oddStrings);
    if (roll < 0.7) return this.pick(oddNumbers);
    if (roll < 0.8) return this.pick([true, false, null]);
    if (roll < 0.9) return this.pick<unknown>([[], {}, [[]], ['x'], { constructor: 1 }, [null]]);
    return nested(this.pick([3, 60, 490, 600, 600, 600]));
  }

  private pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  private chance(share: number): boolean {
    return this.random() < share;
  }

  /** (a): whatever is there now can be listed, shown, cancelled and purged. */
  async checkStored(): Promise<void> {
    const jobs: { id: string; kind: string; status: string }[] = [];
    for (let cursor = ''; ;) {
      const page = await this.server.api('GET', `/api/jobs?limit=200${cursor}`);
      assert.equal(page.status, 200, page.text);
      const { jobs: some, nextCursor } = page.json<{ jobs: typeof jobs; nextCursor?: string }>();
      jobs.push(...some);
      if (nextCursor === undefined) break;
      cursor = `&cursor=${nextCursor}`;
    }
    assert.ok(jobs.length > 0, 'something was stored');
    const stored = await this.quiet(50);
    assert.deepEqual(new Set(jobs.map(({ id }) => id)), stored.jobs);
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

const brokenBodies = [
  '',
  '{',
  '[]',
  'null',
  '"x"',
  '{"a":}',
  '{"input":1e999}',
  '{"__proto__":{"admin":true}}',
  `{"input":${'['.repeat(2000)}`,
];

function referred(ref: string, root: Json): Json {
  let at: unknown = root;
  for (const part of ref.replace(/^#\/?/, '').split('/').filter(Boolean)) at = (at as Json)[part];
  return at as Json;
}

function difference(one: string, other: string): string {
  const lines = new Set(other.split('\n'));
  return one
    .split('\n')
    .filter((line) => !lines.has(line))
    .join('\n');
}

/** After a start with a retention of nothing, all ended jobs go. */
export async function swept(server: TestServer): Promise<void> {
  await until('everything that ended is forgotten', async () => {
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
