// A server with every type of key and objects of several owners, for the authorization matrix. Every stored object has a
// unique word in its name, so that a response that leaks it to the wrong reader is detected.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { App } from '../../src/app.ts';
import { errorBody, errorKind } from '../../src/errors.ts';
import { routeOf } from '../../src/interfaces/http/routes.ts';
import type { Operation } from '../../src/operation.ts';
import { serverOperations } from '../../src/server-operations.ts';
import { request as send } from 'undici';
import { startApp, type TestApp } from '../helpers/app.ts';
import { listen } from '../helpers/listener.ts';
import { until } from '../helpers/until.ts';
import { openInterfaces } from './interfaces.ts';

/** The columns of the table: the key's owner, scopes and limits. */
export const keyRequests = {
  read: { owner: 'ann', scopes: ['read'] },
  run: { owner: 'ann', scopes: ['run'] },
  worker: { owner: 'ann', scopes: ['worker'] },
  admin: { owner: 'ann', scopes: ['admin'] },
  other: { owner: 'bob', scopes: ['read', 'run', 'worker'] },
  command: { owner: 'ann', scopes: ['read', 'run', 'worker'], kinds: ['command'] },
  web: { owner: 'ann', scopes: ['read', 'run', 'worker'], kinds: ['web'] },
  endpoint: { owner: 'ann', scopes: ['read', 'run', 'worker'], kinds: ['endpoint'] },
  escrow: { owner: 'ann', scopes: ['read', 'run', 'worker'], kinds: ['escrow'] },
  queue: { owner: 'ann', scopes: ['read', 'run', 'worker'], queues: ['ci'] },
  bound: { owner: 'ann', scopes: ['read', 'run', 'worker'], subject: 'endpoint:mine' },
  wallet: { owner: 'ann', scopes: ['read', 'run', 'worker'], subject: 'wallet:$mine' },
  adminCmd: { owner: 'ann', scopes: ['admin'], kinds: ['command'] },
  adminCi: { owner: 'ann', scopes: ['admin'], queues: ['ci'] },
  adminEp: { owner: 'ann', scopes: ['admin'], subject: 'endpoint:mine' },
} as const;
/** Dashboard sessions: `session` was created by a key of ann, `viewer` is a read-only session of an admin key. */
const sessionRequests = {
  session: { owner: 'ann', scopes: ['read', 'run'] },
  viewer: { owner: 'ann', scopes: ['admin'] },
} as const;
export type Holder = keyof typeof keyRequests | keyof typeof sessionRequests | 'none';
export const holders: readonly Holder[] = [
  'none',
  ...(Object.keys(keyRequests) as Holder[]),
  ...(Object.keys(sessionRequests) as Holder[]),
];

/** Words in object names, by the holders who may read them. */
const secretWords: Record<string, readonly Holder[]> = {
  'zq-ci': ['read', 'run', 'admin', 'command', 'queue', 'adminCmd', 'adminCi', 'session', 'viewer'],
  'zq-default': ['read', 'run', 'admin', 'command', 'adminCmd', 'session', 'viewer'],
  'zq-mine': ['read', 'run', 'admin', 'endpoint', 'bound', 'adminEp', 'session', 'viewer'],
  'zq-alien': ['read', 'run', 'admin', 'endpoint', 'session', 'viewer'],
  'zq-web': ['read', 'run', 'admin', 'web', 'session', 'viewer'],
  'zq-hire': ['other', 'read', 'run', 'admin', 'escrow', 'wallet', 'session', 'viewer'],
  'zq-foreign': ['other', 'read', 'run', 'admin', 'escrow', 'session', 'viewer'],
  'zq-wallet': ['read', 'run', 'admin', 'escrow', 'wallet', 'session', 'viewer'],
  'zq-memo': ['read', 'run', 'admin', 'other', 'escrow', 'session', 'viewer'],
  'zq-purse': ['read', 'run', 'admin', 'escrow', 'session', 'viewer'],
  'zq-bob': ['other', 'admin', 'adminCmd', 'viewer'],
};

export const leaks = (holder: Holder, text: string): string[] =>
  Object.keys(secretWords).filter(
    (word) => !secretWords[word]!.includes(holder) && text.includes(word),
  );

export interface CallResult {
  status: number;
  /** `ok`, or the error code. */
  code: string;
  text: string;
}

export interface World extends TestApp {
  url: string;
  site: string;
  keys: Record<Holder, string | undefined>;
  /** Keys that were valid once. */
  ended: Record<'expired' | 'revoked' | 'rotated', string>;
  wallets: { mine: string; purse: string; bob: string };
  make: ObjectFactory;
  operation(
    name: string,
    input: unknown,
    key: string | undefined,
    accept?: string,
  ): Promise<CallResult>;
  /** The same call without HTTP. */
  direct(name: string, input: unknown, key: string | undefined): Promise<CallResult>;
  tool(name: string, input: unknown, key: string): Promise<CallResult>;
  send(method: string, path: string, key: string | undefined, body?: unknown): Promise<CallResult>;
  stopInterfaces(): Promise<void>;
}

const later = '2999-01-01T00:00:00Z';

export async function createWorld(t: TestContext, env: Record<string, string>): Promise<World> {
  const site = await listen(t, (_request, response) => response.end('<p>Hello</p>'));
  const settings = {
    egress: { allow: ['127.0.0.1'] },
    web: { browser: { path: '/nonexistent' }, search: { engines: ['local'] } },
    escrow: { openWallets: false },
  };
  const base = await startApp(t, settings, { env });
  const { app } = base;
  app.operations.add(
    serverOperations({
      describe: async () => ({
        version: '0.0.0',
        home: '/home',
        bridge: ['errand', 'mcp'],
        bridges: 0,
        disk: { freeBytes: 0, totalBytes: 0, databaseBytes: 0 },
        retention: { maxAgeMs: 0, maxCount: 0, maxBytes: 0 },
      }),
      idle: async () => false,
      stop: () => {},
      backup: async () => {},
      saveOutput: async () => ({ files: 0, bytes: 0 }),
    }),
  );
  const { url, stopInterfaces } = await openInterfaces(t, app);
  const objects = await createObjects(base, site);
  const { wallets } = objects;
  const keys: Partial<World['keys']> = { none: undefined };
  const create = async (request: object) =>
    base.call<{ key: string; id: string }>('create_key', request);
  for (const [name, request] of Object.entries(keyRequests)) {
    const subject =
      'subject' in request ? request.subject.replace('$mine', wallets.mine) : undefined;
    const made = await create({ ...request, ...(subject === undefined ? {} : { subject }) });
    // All of them are rotated keys, because a rotated key must have the limits of its predecessor.
    const { key } = await base.call<{ key: string }>('rotate_key', { id: made.id });
    keys[name as Holder] = key;
  }
  for (const [name, request] of Object.entries(sessionRequests)) {
    const { key } = await create(request);
    keys[name as Holder] = await logIn(url, { key, readOnly: name === 'viewer' });
  }
  const all = { owner: 'ann', scopes: ['read', 'run', 'worker', 'admin'] };
  const [expired, revoked, rotated] = [
    await create({ ...all, expiresInMs: 1000 }),
    await create(all),
    await create(all),
  ];
  await base.call('revoke_key', { id: revoked.id });
  await base.call('rotate_key', { id: rotated.id });
  await until(
    'the key expires',
    async () => (await app.access.authenticate(expired.key)) === undefined,
  );
  const send: World['send'] = (method, path, key, body) =>
    request(url, { method, path, key, body });
  return {
    ...base,
    url,
    site,
    keys: keys as World['keys'],
    ended: { expired: expired.key, revoked: revoked.key, rotated: rotated.key },
    wallets,
    make: objects,
    operation: (name, input, key, accept) =>
      request(url, { ...routed(app.operations.get(name), input), key, accept }),
    direct: (name, input, key) => directly(app, { name, input, key }),
    tool: (name, input, key) => callTool(url, { name, input, key }),
    send,
    stopInterfaces,
  };
}

/** Session cookies are in the same table as keys. */
const cookiePrefix = 'cookie ';

async function logIn(url: string, body: object): Promise<string> {
  const response = await fetch(`${url}/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify(body),
  });
  return `${cookiePrefix}${response.headers.get('set-cookie')!.split(';')[0]}`;
}

/** What a program sends with a key, or a page with a session. */
function credentials(url: string, key: string | undefined): Record<string, string> {
  if (key === undefined) return {};
  if (!key.startsWith(cookiePrefix)) return { authorization: `Bearer ${key}` };
  const cookie = key.slice(cookiePrefix.length);
  return { cookie, origin: url, 'content-type': 'application/json' };
}

const authenticate = ({ access, sessions }: App, key: string) =>
  key.startsWith(cookiePrefix)
    ? sessions.authenticate(key.split('=')[1]!)
    : access.authenticate(key);

export type ObjectFactory = Awaited<ReturnType<typeof createObjects>>;

/** Objects of ann and bob. What a call may change is created again for every call. */
async function createObjects({ call, app, home }: TestApp, site: string) {
  const ann = { caller: { owner: 'ann' } };
  const bob = { caller: { owner: 'bob' } };
  const id = async (name: string, input: object, who = ann): Promise<string> =>
    (await call<{ id: string }>(name, input, who)).id;
  const wallet = (name: string, who = ann) => id('create_wallet', { name }, who);
  const wallets = {
    mine: await wallet('zq-wallet'),
    purse: await wallet('zq-purse'),
    bob: await wallet('zq-bob', bob),
  };
  for (const name of Object.values(wallets))
    await call('mint_credit', { wallet: name, amount: '1000', transferId: name });
  for (const endpoint of ['mine', 'alien']) await call('save_endpoint', { id: endpoint }, ann);
  for (const endpointId of ['mine', 'alien'])
    await call('ping_worker', { endpointId, workerId: 'w1' }, { caller: { owner: 'ann' } });
  const { nodes } = await call<{ nodes: { id: string }[] }>('list_nodes');
  const command = (queue: string, who = ann, name = `zq-${queue}`) =>
    id('run_command', { argv: ['true'], runAt: later, waitMs: 0, queue, name }, who);
  const endpointJob = (endpointId: string) =>
    id('run_endpoint', { endpointId, input: { n: 1 }, name: `zq-${endpointId}` });
  const webJob = async () => {
    const input = { url: site, maxPages: 1 };
    const request = { kind: 'web', action: 'crawl', input, owner: 'ann', labels: ['none'] };
    const { job } = await app.jobs.submit({ ...request, name: 'zq-web' });
    const pictures = join(home, 'web', 'pictures', job.id);
    mkdirSync(pictures, { recursive: true });
    writeFileSync(join(pictures, 'a.png'), 'zq-web');
    return job.id;
  };
  let posted = 0;
  const hire = (client: string, more: object = {}) =>
    id('post_work', {
      wallet: client,
      provider: wallets.bob,
      budget: '1000',
      title: client === wallets.mine ? 'zq-hire' : 'zq-foreign',
      description: `n ${++posted}`,
      visibility: 'private',
      repeat: true,
      ...more,
    });
  const hook = async (jobId?: string) =>
    id('create_webhook', { url: `${site}/hook`, ...(jobId === undefined ? {} : { jobId }) });
  const batch = (endpointId: string) =>
    id('draft_batch', { endpointId, requests: [{ input: 1 }], name: `zq-${endpointId}` });
  const key = async (more: object = {}) => id('create_key', { owner: 'ann', ...more });
  /** A session of a key with the scopes read and run. */
  const session = async (owner: string) => {
    const { key } = await call<{ key: string }>('create_key', { owner });
    const { token } = await app.sessions.logIn({ key }, {});
    return (await app.sessions.authenticate(token))!.sessionId!;
  };
  const deliver = async (queue: string) => {
    const job = await command(queue);
    const webhook = await hook(job);
    await call('cancel_job', { id: job }, ann);
    return until('the delivery is made', async () => {
      const { deliveries } = await call<{ deliveries: { id: string }[] }>(
        'list_deliveries',
        { id: webhook },
        ann,
      );
      return deliveries[0]?.id;
    });
  };
  const deliveries = { ci: await deliver('ci'), default: await deliver('default') };
  await command('ci');
  await command('default');
  await command('default', bob, 'zq-bob');
  await endpointJob('mine');
  await endpointJob('alien');
  await webJob();
  const payment = await id('send_payment', {
    wallet: wallets.purse,
    to: wallets.bob,
    amount: '1',
    memo: 'zq-memo',
  });
  return {
    wallets,
    node: nodes[0]!.id,
    payment,
    command,
    endpointJob,
    webJob,
    hire,
    hook,
    batch,
    key,
    session,
    delivered: (queue: 'ci' | 'default') => deliveries[queue],
    openHire: () =>
      hire(wallets.purse, { visibility: 'public', title: 'open', tags: ['zq-purse'] }),
    bobJob: () => command('default', bob, 'zq-bob'),
    claim: async () => (await call<{ claimKey: string }>('open_wallet', {}, ann)).claimKey,
    endpoint: () => id('save_endpoint', { ttlMs: 20_000 }),
  };
}

function routed(operation: Operation, input: unknown) {
  const route = routeOf(operation);
  const rest = { ...(input as Record<string, unknown>) };
  const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = encodeURIComponent(String(rest[name]));
    delete rest[name];
    return value;
  });
  if (route.method !== 'GET' && route.method !== 'DELETE')
    return { method: route.method, path, body: rest };
  const query = new URLSearchParams(
    Object.entries(rest).map(([name, value]): [string, string] => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
  return { method: route.method, path: `${path}?${query}` };
}

interface HttpCall {
  method: string;
  path: string;
  key: string | undefined;
  body?: unknown;
  accept?: string | undefined;
}

async function request(
  url: string,
  { method, path, key, body, accept }: HttpCall,
): Promise<CallResult> {
  // The matrix makes thousands of calls, and fetch takes three times as long as a plain request.
  const response = await send(`${url}${path}`, {
    method: method as 'GET',
    headers: {
      ...credentials(url, key),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(accept === undefined ? {} : { accept }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const { statusCode: status } = response;
  if (accept !== undefined && status < 300) return { status, ...(await firstEvent(response.body)) };
  const text = await response.body.text();
  return { status, code: codeOf(status, text), text };
}

async function directly(
  app: App,
  { name, input, key }: { name: string; input: unknown; key: string | undefined },
): Promise<CallResult> {
  const caller = key === undefined ? undefined : await authenticate(app, key);
  const { signal } = new AbortController();
  try {
    const output = await app.operations.call(name, input, { caller, signal });
    return { status: 200, code: 'ok', text: JSON.stringify(output) };
  } catch (error) {
    const body = errorBody(error);
    return { status: errorKind(body.code).http, code: body.code, text: JSON.stringify(body) };
  }
}

/** Streams of idle objects never end, so the first chunk is enough. */
async function firstEvent(body: AsyncIterable<Buffer>): Promise<Omit<CallResult, 'status'>> {
  for await (const chunk of body) return { code: 'ok', text: chunk.toString('utf8') };
  return { code: 'ok', text: '' };
}

function codeOf(status: number, text: string): string {
  if (status < 400) return 'ok';
  try {
    const { code } = JSON.parse(text) as { code?: unknown };
    if (typeof code === 'string') return code;
  } catch {
    // A dialect with a different format.
  }
  return String(status);
}

async function callTool(
  url: string,
  { name, input, key }: { name: string; input: unknown; key: string },
): Promise<CallResult> {
  const response = await fetch(`${url}/mcp?toolsets=all`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: input },
    }),
  });
  const body = await response.text();
  const json = body.startsWith('{') ? body : (/^data: (.*)$/m.exec(body)?.[1] ?? '{}');
  const { result } = JSON.parse(json) as {
    result?: { isError?: boolean; content: { text?: string }[] };
  };
  const text = result?.content[0]?.text ?? json;
  const code = result && !result.isError ? 'ok' : (/^(\w+):/.exec(text)?.[1] ?? text);
  return { status: response.status, code, text: body };
}
