// Attempts to exceed the limits of a key over HTTP, server-sent events and MCP, on both stores.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import type { CliShape } from '../../src/operation.ts';
import { createWorld, leaks, type Holder, type World } from './world.ts';

const stores: [string, () => Promise<Record<string, string>>][] = [
  ['sqlite', async () => ({})],
  ['postgres', async () => ({ ERRAND_STORE: await migratedDatabase(allMigrations()) })],
];

for (const [store, env] of stores) {
  test(`limited keys on ${store}`, async (t) => {
    const world = await createWorld(t, await env());
    await t.test('a key bound to an endpoint runs no command and sees no other job', () =>
      bound(world),
    );
    await t.test('a new key comes with a description of its rights', () => keyDescription(world));
    await t.test('a limited admin key grants nothing beyond its limits', () => granting(world));
    await t.test('a key without scope read sees only the public part of public operations', () =>
      publicOnly(world),
    );
    await t.test('a key limited to queues cannot pay or create endpoints', () => queues(world));
    await t.test('a name in use elsewhere does not bypass a limit', () => names(world));
    await t.test('MCP and event streams enforce the same limits', () => interfaces(world));
    await t.test('a wallet key has no more rights than the key that created it', () =>
      wallets(world),
    );
  });
}

const shell = { command: 'id', waitMs: 0, runAt: '2999-01-01T00:00:00Z' };

async function codes(world: World, holder: Holder, calls: [string, object][]): Promise<string[]> {
  return Promise.all(
    calls.map(async ([name, input]) => {
      const { code, text } = await world.operation(name, input, world.keys[holder]);
      assert.deepEqual(leaks(holder, text), [], `${name} for ${holder}`);
      return code;
    }),
  );
}

async function bound(world: World): Promise<void> {
  const other = await world.make.command('default');
  const found = await codes(world, 'bound', [
    ['run_command', shell],
    ['cancel_job', { id: other }],
    ['get_job', { id: other }],
    ['list_events', { id: other }],
    ['wait_for_jobs', { ids: [other], timeoutMs: 0 }],
    ['create_webhook', { url: `${world.site}/h` }],
    ['get_wallet', {}],
    ['send_payment', { to: world.wallets.bob, amount: '1', wallet: world.wallets.mine }],
    ['web_usage', {}],
    ['list_nodes', {}],
    ['run_endpoint', { endpointId: 'mine', input: 1 }],
  ]);
  assert.deepEqual(found, [
    ...['forbidden', 'notFound', 'notFound', 'notFound', 'notFound', 'forbidden'],
    ...['forbidden', 'forbidden', 'forbidden', 'forbidden', 'ok'],
  ]);
  const list = await world.operation('list_jobs', { limit: 200 }, world.keys.bound);
  const { jobs } = JSON.parse(list.text) as { jobs: { queue?: string }[] };
  assert.ok(jobs.length > 0 && jobs.every(({ queue }) => queue === 'mine'), list.text);
}

async function granting(world: World): Promise<void> {
  const limited: Holder[] = ['adminCmd', 'adminCi', 'adminEp'];
  for (const holder of limited) {
    const stronger = await world.make.key({ scopes: ['admin'] });
    const found = await codes(world, holder, [
      ['create_key', { owner: 'ann', scopes: ['admin'] }],
      ['rotate_key', { id: stronger }],
      ['revoke_key', { id: stronger }],
      ['mint_credit', { wallet: world.wallets.mine, amount: '1', transferId: `by ${holder}` }],
      ['stop_server', {}],
      ['backup_store', { path: '/tmp/none' }],
    ]);
    assert.deepEqual(
      found,
      ['forbidden', 'notFound', 'notFound', 'forbidden', 'forbidden', 'forbidden'],
      holder,
    );
    const keys = await world.operation('list_keys', {}, world.keys[holder]);
    assert.ok(!keys.text.includes(stronger), `${holder} lists a stronger key`);
  }
  const brief = await world.call<{ key: string }>('create_key', {
    owner: 'ann',
    scopes: ['admin'],
    expiresInMs: 600_000,
  });
  const made = await world.operation('create_key', { owner: 'ann' }, brief.key);
  assert.equal(made.code, 'forbidden', 'an expiring key cannot create one that never expires');
  const within = { owner: 'bob', expiresInMs: 60_000 };
  assert.equal((await world.operation('create_key', within, brief.key)).code, 'ok');
}

async function keyDescription(world: World): Promise<void> {
  const { cli } = world.app.operations.get('create_key');
  const describeKey = async (request: object) =>
    (cli as CliShape).text!(await world.call('create_key', request)) ?? '';
  const plain = await describeKey({ owner: 'ann' });
  assert.match(plain, /^errand_\w{40}\n/);
  assert.match(plain, /Anyone who has it can:\n {2}- run any command as the user of this server/);
  assert.match(plain, /\n {2}- cancel, retry, rerun and delete jobs of the owner ann\n/);
  const web = await describeKey({ kinds: ['web'], queues: ['default'], expiresInMs: 60_000 });
  assert.doesNotMatch(web, /run any command/);
  assert.match(web, /only work of kind web\n.*queues default\nIt expires at 2/);
  const bound = await describeKey({ subject: 'endpoint:mine', scopes: ['run'] });
  assert.doesNotMatch(bound, /run any command|wallets|read jobs/);
  assert.match(bound, /only endpoint mine/);
  assert.match(
    await describeKey({ scopes: ['admin'] }),
    /every owner[\s\S]*stop the server, create keys/,
  );
}

async function publicOnly(world: World): Promise<void> {
  const hidden = await world.make.command('default');
  const open = await world.make.openHire();
  for (const name of ['get_job', 'list_events']) {
    assert.deepEqual(await codes(world, 'worker', [[name, { id: hidden }]]), ['forbidden'], name);
    assert.deepEqual(await codes(world, 'worker', [[name, { id: open }]]), ['ok'], name);
  }
  const [asWorker, asNobody] = await Promise.all(
    [world.keys.worker, undefined].map((key) => world.operation('get_job', { id: open }, key)),
  );
  assert.deepEqual(JSON.parse(asWorker!.text), JSON.parse(asNobody!.text), 'same as without a key');
}

async function queues(world: World): Promise<void> {
  const { mine, bob } = world.wallets;
  const found = await codes(world, 'queue', [
    ['send_payment', { to: bob, amount: '1', wallet: mine }],
    ['create_wallet', { withKey: true }],
    ['save_endpoint', { id: 'ci' }],
    ['save_endpoint', {}],
    ['delete_endpoint', { id: 'mine' }],
    ['run_command', shell],
    ['run_command', { ...shell, queue: 'ci' }],
  ]);
  assert.deepEqual(found, [...Array.from({ length: 6 }, () => 'forbidden'), 'ok']);
}

async function names(world: World): Promise<void> {
  const server = { ...shell, name: 'dev', ensure: true };
  await world.call('run_command', server, { caller: { owner: 'ann' } });
  const found = await codes(world, 'queue', [['run_command', { ...server, queue: 'ci' }]]);
  assert.deepEqual(found, ['conflict']);
}

async function interfaces(world: World): Promise<void> {
  const job = await world.make.command('default');
  const key = world.keys.queue!;
  const calls: [string, object][] = [
    ['get_job', { id: job }],
    ['read_output', { id: job }],
    ['list_events', { id: job }],
    ['run_command', shell],
    ['run_endpoint', { endpointId: 'mine', input: 1 }],
  ];
  for (const [name, input] of calls) {
    const expected = await world.operation(name, input, key);
    assert.notEqual(expected.code, 'ok', name);
    const tool = await world.tool(name, input, key);
    assert.equal(tool.code, expected.code, `${name} over MCP: ${tool.text}`);
  }
  const hire = { provider: world.wallets.bob, budget: '1', title: 'a', description: 'b' };
  const hidden = await world.tool('post_work', hire, key);
  assert.match(hidden.text, /Unknown tool/, 'a tool that the key can never use is not offered');
  for (const name of ['read_output', 'list_events', 'follow_stream']) {
    const stream = await world.operation(name, { id: job }, key, 'text/event-stream');
    assert.equal(stream.code, 'notFound', `${name} as a stream`);
  }
}

async function wallets(world: World): Promise<void> {
  const made = await world.operation('create_wallet', { withKey: true }, world.keys.run);
  const { key } = JSON.parse(made.text) as { key: string };
  const caller = await world.app.access.authenticate(key);
  assert.deepEqual([...caller!.scopes], ['run']);
  assert.equal((await world.operation('create_wallet', {}, key)).code, 'forbidden');
}
