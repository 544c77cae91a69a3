// A server with keys of every sort and things of several owners, for the authorization matrix. Everything stored has a
// word of its own in its name, so that an answer with a word that its reader must not see is found.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { App } from '../../src/app.ts';
import { errorBody, errorKind } from '../../src/errors.ts';
import { routeOf } from '../../src/faces/http/routes.ts';
import type { Operation } from '../../src/operation.ts';
import { serverOperations } from '../../src/server-operations.ts';
import { startApp, type TestApp } from '../helpers/app.ts';
import { listen } from '../helpers/listener.ts';
import { until } from '../helpers/until.ts';
import { openFaces } from './faces.ts';

/** The columns of the table: whose key it is, its scopes and its limits. */
export const keyWishes = {
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
export type Holder = keyof typeof keyWishes | 'none';
export const holders: readonly Holder[] = ['none', ...(Object.keys(keyWishes) as Holder[])];

/** Words in the names of stored things, by the holders whose answers may have them. */
const words: Record<string, readonly Holder[]> = {
  'zq-ci': ['read', 'run', 'admin', 'command', 'queue', 'adminCmd', 'adminCi'],
  'zq-default': ['read', 'run', 'admin', 'command', 'adminCmd'],
  'zq-mine': ['read', 'run', 'admin', 'endpoint', 'bound', 'adminEp'],
  'zq-alien': ['read', 'run', 'admin', 'endpoint'],
  'zq-web': ['read', 'run', 'admin', 'web'],
  'zq-hire': ['other', 'read', 'run', 'admin', 'escrow', 'wallet'],
  'zq-foreign': ['other', 'read', 'run', 'admin', 'escrow'],
  'zq-wallet': ['read', 'run', 'admin', 'escrow', 'wallet'],
  'zq-memo': ['read', 'run', 'admin', 'other', 'escrow'],
  'zq-purse': ['read', 'run', 'admin', 'escrow'],
  'zq-bob': ['other', 'admin', 'adminCmd'],
};

export const leaks = (holder: Holder, text: string): string[] =>
  Object.keys(words).filter((word) => !words[word]!.includes(holder) && text.includes(word));

export interface Answer {
  status: number;
  /** `ok`, or the code of the error. */
  code: string;
  text: string;
}

export interface World extends TestApp {
  url: string;
  site: string;
  keys: Record<Holder, string | undefined>;
  /** Keys that worked once. */
  ended: Record<'expired' | 'revoked' | 'rotated', string>;
  wallets: { mine: string; purse: string; bob: string };
  make: Makers;
  operation(
    name: string,
    input: unknown,
    key: string | undefined,
    accept?: string,
  ): Promise<Answer>;
  /** The same call without HTTP. */
  direct(name: string, input: unknown, key: string | undefined): Promise<Answer>;
  tool(name: string, input: unknown, key: string): Promise<Answer>;
  send(method: string, path: string, key: string | undefined, body?: unknown): Promise<Answer>;
  stopFace(): Promise<void>;
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
      idle: async () => false,
      stop: () => {},
      backup: async () => {},
      saveOutput: async () => ({ files: 0, bytes: 0 }),
    }),
  );
  const { url, stopFace } = await openFaces(t, app);
  const makers = await things(base, site);
  const { wallets } = makers;
  const keys: Partial<World['keys']> = { none: undefined };
  const create = async (wish: object) => base.call<{ key: string; id: string }>('create_key', wish);
  for (const [name, wish] of Object.entries(keyWishes)) {
    const subject = 'subject' in wish ? wish.subject.replace('$mine', wallets.mine) : undefined;
    const made = await create({ ...wish, ...(subject === undefined ? {} : { subject }) });
    // All of them are successors: a rotated key is as limited as the one before it.
    const { key } = await base.call<{ key: string }>('rotate_key', { id: made.id });
    keys[name as Holder] = key;
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
    make: makers,
    operation: (name, input, key, accept) =>
      request(url, { ...routed(app.operations.get(name), input), key, accept }),
    direct: (name, input, key) => directly(app, { name, input, key }),
    tool: (name, input, key) => callTool(url, { name, input, key }),
    send,
    stopFace,
  };
}

export type Makers = Awaited<ReturnType<typeof things>>;

/** Things of ann and bob; what a call may change is made anew for every call. */
async function things({ call, app, home }: TestApp, site: string) {
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
    const wish = { kind: 'web', action: 'crawl', input, owner: 'ann', labels: ['none'] };
    const { job } = await app.jobs.submit({ ...wish, name: 'zq-web' });
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

interface Asked {
  method: string;
  path: string;
  key: string | undefined;
  body?: unknown;
  accept?: string | undefined;
}

async function request(url: string, { method, path, key, body, accept }: Asked): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(accept === undefined ? {} : { accept }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (accept !== undefined && response.ok) return firstEvent(response);
  const text = await response.text();
  return { status: response.status, code: codeOf(response.status, text), text };
}

async function directly(
  { operations, access }: App,
  { name, input, key }: { name: string; input: unknown; key: string | undefined },
): Promise<Answer> {
  const caller = key === undefined ? undefined : await access.authenticate(key);
  const { signal } = new AbortController();
  try {
    const output = await operations.call(name, input, { caller, signal });
    return { status: 200, code: 'ok', text: JSON.stringify(output) };
  } catch (error) {
    const body = errorBody(error);
    return { status: errorKind(body.code).http, code: body.code, text: JSON.stringify(body) };
  }
}

/** Streams of things that never change have no end: the first piece says enough. */
async function firstEvent(response: Response): Promise<Answer> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return { status: response.status, code: 'ok', text: new TextDecoder().decode(value) };
}

function codeOf(status: number, text: string): string {
  if (status < 400) return 'ok';
  try {
    const { code } = JSON.parse(text) as { code?: unknown };
    if (typeof code === 'string') return code;
  } catch {
    // a dialect of another form
  }
  return String(status);
}

async function callTool(
  url: string,
  { name, input, key }: { name: string; input: unknown; key: string },
): Promise<Answer> {
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
  const said = result?.content[0]?.text ?? json;
  const code = result && !result.isError ? 'ok' : (/^(\w+):/.exec(said)?.[1] ?? said);
  return { status: response.status, code, text: body };
}
