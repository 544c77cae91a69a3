// Generates requests from operation schemas and route paths: mostly valid, with unusual values in any field. The seed
// determines every request.

export type Json = Record<string, unknown>;

export interface Request {
  method: string;
  path: string;
  body?: string;
  key?: string | undefined;
  /** Exceeds an input limit, so it must be refused. */
  excessive: boolean;
}

export interface Route {
  /** `MCP` for a tool: `path` is its name. */
  method: string;
  path: string;
  schema?: Json;
}

export const nameOf = ({ method, path }: Route): string => `${method} ${path}`;

/** mulberry32: small, fast, and good enough to choose values. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Text for values that JSON.stringify cannot produce. Each exceeds a limit. */
const excessive: Record<string, string> = {
  deep: `${'['.repeat(600)}1${']'.repeat(600)}`,
  deepest: `${'{"a":'.repeat(3000)}1${'}'.repeat(3000)}`,
  overflow: '1e999',
  digits: '9'.repeat(1500),
};
const marker = (name: string): string => `@@${name}@@`;

const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}1${']'.repeat(depth)}`);
const inherited = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'];
const oddStrings = [
  '',
  ' ',
  'x',
  ...inherited,
  '\u0000',
  'a\u0000b',
  '\ud800',
  'a\udc00b',
  '💥',
  '../../etc',
  "'; DROP TABLE jobs",
  'x'.repeat(5000),
  '%00',
  'null',
  'NaN',
  '-1',
  '1e999',
  'job_0000000000000000',
  'http://127.0.0.1:1/',
  'https://user:pw@host.invalid/',
  'file:///etc/passwd',
  '2020-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '0x0000000000000000000000000000000000000001',
];
const oddNumbers = [0, -1, 1, 1.5, 2, 7, 1000, 2 ** 31, 2 ** 53, 1e21, 1e308, -1e-7];
const oddObjects: unknown[] = [
  [],
  {},
  [[]],
  ['x'],
  [null],
  { constructor: 1 },
  JSON.parse('{"__proto__":{"admin":true}}'),
  { ['k'.repeat(20_000)]: 1 },
  { '\ud800': 1, '': 2, '\u0000': 3 },
];
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
  'maxWorkers',
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

/** Only called in ways that fail: these operations stop the server or write to a path of the caller's choice. */
const refusedOnly = /stop_server|backup_store/;
/** Waits are short, because nothing ends them. */
const waits = /^(waitMs|timeoutMs|timeout|wait|graceMs|pageTimeoutMs)$/;

/** Ids from earlier responses that the generator may use. */
export class Generator {
  private readonly random: () => number;
  private readonly keys: (string | undefined)[];
  private readonly ids: string[] = ['e', 'default'];
  /** Used for every field that accepts any JSON. The rest of the request is valid. */
  private value: string | undefined;

  constructor(random: () => number, keys: (string | undefined)[]) {
    this.random = random;
    this.keys = keys;
  }

  learn(text: string): void {
    for (const [id] of text.matchAll(/\b(?:job|wal|wallet|pay|hook|key|wh)_[0-9a-z]{8,}/g))
      if (!this.ids.includes(id) && this.ids.length < 200) this.ids.push(id);
  }

  /** Requests that are valid except for one value above a limit, in each field that accepts any JSON. */
  *excessiveFor(route: Route): IterableIterator<Request> {
    for (const name of Object.keys(excessive)) {
      this.value = marker(name);
      const request = this.requestFor({
        ...route,
        path: route.path.replaceAll(/\{endpointId\}/g, 'e'),
      });
      this.value = undefined;
      if (request.excessive) yield request;
    }
  }

  requestFor(route: Route): Request {
    const { method, path, schema } = route;
    const key = this.value || this.chance(0.7) ? this.keys[0] : this.pick(this.keys);
    const input = schema
      ? this.fromSchema(schema, schema, 0)
      : this.value
        ? { input: this.value }
        : this.free(0);
    const fields: Json =
      typeof input === 'object' && input !== null && !Array.isArray(input)
        ? { ...(input as Json) }
        : {};
    if (!this.value && this.chance(0.15)) fields[this.pick(fieldPool)] = this.odd();
    const isRefused = refusedOnly.test(path);
    if (isRefused) fields.unknownField = 1;
    if (method === 'MCP') return { ...toolCall(path, fields), key };
    const where = path.replaceAll(/\{(\w+)\*?\}/g, (_, field: string) =>
      encodeURIComponent(this.idFor(field, path)),
    );
    if (method === 'GET' || method === 'DELETE')
      return { method, path: withQuery(where, path, fields), key, excessive: false };
    for (const [, field] of path.matchAll(/\{(\w+)\}/g)) delete fields[field!];
    const broken = !isRefused && !this.value && this.chance(0.03);
    const whole = !isRefused && !this.value && this.chance(0.03) ? this.odd() : fields;
    const body = broken ? this.pick(brokenBodies) : written(whole);
    return { method, path: where, body: body.text, key, excessive: body.excessive };
  }

  /** Mostly an existing id of the type that the field name suggests. */
  private idFor(field: string, path = ''): string {
    if (!this.value && this.chance(0.15))
      return this.pick(oddStrings).toWellFormed().slice(0, 60) || 'x';
    if (this.chance(0.05)) return this.pick(this.ids);
    if (field === 'kind') return this.pick(['command', 'endpoint', 'web', 'escrow']);
    if (field === 'name') return 'default';
    if (/endpoint/i.test(field) || /\/(endpoints|serverless)\/\{id\}/.test(path)) return 'e';
    const sort = /wallet/i.test(field) ? 'wal_' : /payment/i.test(field) ? 'pay_' : 'job_';
    return this.pick(this.ids.filter((id) => id.startsWith(sort))) ?? 'job_0000000000000000';
  }

  private fromSchema(schema: Json, root: Json, depth: number, field = ''): unknown {
    if (waits.test(field)) return this.value ? 0 : this.pick([0, 0, 0, 1, 5, -1, 1.5, 'x']);
    // Jobs must not run: their background work would look like an effect of the next request.
    if (field === 'paused') return true;
    if (field === 'queue') return 'default';
    if (!this.value && this.chance(0.06)) return this.odd();
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
        return Array.from(
          { length: depth > 3 ? 0 : this.value ? 1 : Math.floor(this.random() * 3) },
          () => this.fromSchema((schema.items ?? {}) as Json, root, depth + 1),
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
        return this.value ?? this.odd();
    }
  }

  private object(schema: Json, root: Json, depth: number): Json {
    const properties = (schema.properties ?? {}) as Record<string, Json>;
    const required = new Set((schema.required ?? []) as string[]);
    const result: Json = {};
    for (const [name, field] of Object.entries(properties)) {
      const isAlways =
        waits.test(name) || (required.has(name) && (this.value || !this.chance(0.05)));
      const isOften = !this.value && this.chance(depth > 2 ? 0.1 : 0.3);
      const isGiven = isAlways || isOften || (this.value && isAny(field));
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
    if (roll < 0.45) return this.pick(oddStrings);
    if (roll < 0.65) return this.pick(oddNumbers);
    if (roll < 0.75) return this.pick([true, false, null]);
    if (roll < 0.87) return this.pick(oddObjects);
    if (roll < 0.92) return nested(this.pick([3, 60, 300]));
    return marker(this.pick(Object.keys(excessive)));
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  chance(share: number): boolean {
    return this.random() < share;
  }
}

const isAny = (schema: Json): boolean =>
  !['type', 'anyOf', 'oneOf', 'enum', 'const', '$ref'].some((name) => Object.hasOwn(schema, name));

function written(value: unknown): { text: string; excessive: boolean } {
  let isExcessive = false;
  const text = (JSON.stringify(value) ?? '').replaceAll(/"@@(\w+)@@"(?!:)/g, (_, name: string) => {
    isExcessive = true;
    return excessive[name]!;
  });
  return { text, excessive: isExcessive };
}

function toolCall(name: string, fields: Json): Omit<Request, 'key'> {
  const { text, excessive: isExcessive } = written(fields);
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${text}}}`;
  return { method: 'POST', path: '/mcp?toolsets=all', body, excessive: isExcessive };
}

function withQuery(where: string, path: string, fields: Json): string {
  const query = new URLSearchParams();
  for (const [field, value] of Object.entries(fields))
    if (!path.includes(`{${field}}`))
      query.set(
        field,
        typeof value === 'string' ? value.toWellFormed() : (JSON.stringify(value) ?? ''),
      );
  const text = query.toString();
  return `${where}${text && text.length < 8000 ? `?${text}` : ''}`;
}

const brokenBodies: { text: string; excessive: boolean }[] = [
  ...['', '{', '[]', 'null', '"x"', '{"a":}', '{"__proto__":{"admin":true}}'].map((text) => ({
    text,
    excessive: false,
  })),
  ...['{"input":1e999}', '{"input":NaN}', `{"input":${'['.repeat(2000)}`].map((text) => ({
    text,
    excessive: true,
  })),
];

function referred(ref: string, root: Json): Json {
  let at: unknown = root;
  for (const part of ref.replace(/^#\/?/, '').split('/').filter(Boolean)) at = (at as Json)[part];
  return at as Json;
}
