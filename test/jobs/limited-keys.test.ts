// The limits of API keys: a key gets no events of other owners, and a key limited to kinds cannot use other kinds or get
// their events.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Caller } from '../../src/operation.ts';
import { startApp } from '../helpers/app.ts';

async function startWithOwners(t: TestContext) {
  const { call, app } = await startApp(t);
  const as = (more: Partial<Caller>) => {
    const caller: Partial<Caller> = {
      scopes: new Set(['read', 'run']),
      admin: false,
      local: false,
      ...more,
    };
    return {
      call: <T = Record<string, unknown>>(name: string, input?: unknown) =>
        call<T>(name, input, { caller }),
      refusal: (name: string, input?: unknown) =>
        call(name, input, { caller }).then(
          () => 'allowed',
          (error: { code: string }) => error.code,
        ),
    };
  };
  const ann = as({ owner: 'ann' });
  const { id } = await ann.call<{ id: string }>('run_command', { argv: ['true'], waitMs: 0 });
  return { as, ann, jobId: id, access: app.access };
}

const later = '2999-01-01T00:00:00Z';
const hook = { url: 'https://example.com/hook' };

test('only callers who may read a job can subscribe to it', async (t) => {
  const { as, ann, jobId } = await startWithOwners(t);
  const bob = as({ owner: 'bob' });
  assert.equal(await bob.refusal('create_webhook', { ...hook, jobId }), 'notFound');
  assert.equal(await bob.refusal('create_webhook', { ...hook, jobId: 'job_none' }), 'notFound');
  assert.equal(await ann.refusal('create_webhook', { ...hook, jobId }), 'allowed');
  assert.equal(await bob.refusal('create_webhook', hook), 'allowed');
});

test('a limited key can neither create nor delete a webhook for all jobs of its owner', async (t) => {
  const { as, ann, jobId } = await startWithOwners(t);
  const { id } = await ann.call<{ id: string }>('create_webhook', hook);
  const limits: Partial<Caller>[] = [
    { kinds: ['escrow'] },
    { queues: ['ci'] },
    { subject: 'wallet:wal_0000000000000000' },
  ];
  for (const limit of limits) {
    const limited = as({ owner: 'ann', ...limit });
    assert.equal(await limited.refusal('create_webhook', hook), 'forbidden');
    assert.equal(await limited.refusal('delete_webhook', { id }), 'notFound');
    assert.deepEqual(await limited.call('list_webhooks'), { webhooks: [] });
  }
  const command = as({ owner: 'ann', kinds: ['command'] });
  const own = await command.call<{ id: string }>('create_webhook', { ...hook, jobId });
  const { webhooks } = await command.call<{ webhooks: { id: string }[] }>('list_webhooks');
  assert.deepEqual(
    webhooks.map((one) => one.id),
    [own.id],
  );
  assert.equal(await command.refusal('delete_webhook', { id: own.id }), 'allowed');
});

test('a limited key sees only its own queues', async (t) => {
  const { as, ann } = await startWithOwners(t);
  await ann.call('run_command', { argv: ['true'], waitMs: 0, queue: 'ci' });
  const names = async (limit: Partial<Caller>) => {
    const { queues } = await as({ owner: 'ann', ...limit }).call<{ queues: { name: string }[] }>(
      'list_queues',
    );
    return queues.map(({ name }) => name).toSorted();
  };
  assert.deepEqual(await names({}), ['ci', 'default']);
  assert.deepEqual(await names({ queues: ['ci'] }), ['ci']);
  assert.deepEqual(await names({ kinds: ['escrow'] }), []);
});

test('in a shared queue a key sees the counts of its own jobs; queues of others are hidden', async (t) => {
  const { as, ann } = await startWithOwners(t);
  const bob = as({ owner: 'bob' });
  type Queues = { queues: { name: string; queued: number; running: number; ended: number }[] };
  const counts = async (who: typeof ann) => {
    const { queues } = await who.call<Queues>('list_queues');
    return queues.map(({ name, queued, running, ended }) => [name, queued, running, ended]);
  };
  await ann.call('run_command', { argv: ['true'], waitMs: 0, queue: 'secret', runAt: later });
  await bob.call('run_command', { argv: ['true'], waitMs: 0, runAt: later });
  assert.deepEqual(await counts(bob), [['default', 1, 0, 0]]);
  await bob.call('run_command', { argv: ['true'], waitMs: 20_000 });
  assert.deepEqual(await counts(bob), [['default', 1, 0, 1]]);
  assert.deepEqual(await counts(as({ owner: 'carl' })), []);
  assert.deepEqual(await counts(as({ owner: 'carl', queues: ['secret'] })), [['secret', 0, 0, 0]]);
  const all = (await counts(as({ owner: 'owner', admin: true }))).map(([name, queued]) => [
    name,
    queued,
  ]);
  assert.deepEqual(all, [
    ['default', 1],
    ['secret', 1],
  ]);
});

test('a key limited to kinds can call only operations of those kinds', async (t) => {
  const { as, jobId } = await startWithOwners(t);
  const escrow = as({ owner: 'ann', kinds: ['escrow'] });
  for (const [name, input] of [
    ['run_command', { argv: ['true'] }],
    ['read_output', { id: jobId }],
    ['read_page', { url: 'https://example.com/' }],
    ['web_usage', {}],
    ['save_endpoint', { id: 'mine' }],
  ] as const)
    assert.equal(await escrow.refusal(name, input), 'forbidden', name);
  assert.equal(await escrow.refusal('create_wallet', { name: 'a' }), 'allowed');
  assert.equal(await escrow.refusal('list_jobs'), 'allowed');
  const command = as({ owner: 'ann', kinds: ['command'] });
  assert.equal(await command.refusal('get_wallet'), 'forbidden');
  assert.equal(await command.refusal('read_output', { id: jobId }), 'allowed');
});

test('a key limited to endpoints sees the batches it creates', async (t) => {
  const { as, access } = await startWithOwners(t);
  const admin = as({ owner: 'owner', admin: true, scopes: new Set(['admin']) });
  await admin.call('save_endpoint', { id: 'model' });
  const { key } = await admin.call<{ key: string }>('create_key', { kinds: ['endpoint'] });
  const limited = as((await access.authenticate(key))!);
  const batch = await limited.call('run_batch', { endpointId: 'model', inputs: [1, 2] });
  const { id, createdAt } = batch as { id: string; createdAt: string };
  assert.ok(!Number.isNaN(Date.parse(createdAt)), 'an ISO time');
  assert.equal(await limited.refusal('get_batch', { batchId: id, endpointId: 'model' }), 'allowed');
  assert.equal(await limited.refusal('get_job', { id }), 'allowed');
  const { jobs } = await limited.call<{ jobs: { kind: string }[] }>('list_jobs');
  assert.deepEqual(jobs.map(({ kind }) => kind).toSorted(), ['batch', 'endpoint', 'endpoint']);
});

test('create_key rejects unknown kinds, invalid queues and unknown subjects', async (t) => {
  const { as } = await startWithOwners(t);
  const admin = as({ owner: 'owner', admin: true, scopes: new Set(['admin']) });
  const createKey = (request: object) =>
    admin.call('create_key', request).then(
      () => 'allowed',
      ({ message, hint }: { message: string; hint: string }) => `${message} ${hint}`,
    );
  assert.match(await createKey({ kinds: ['comand'] }), /kind.* comand.*command, .*web/s);
  assert.match(await createKey({ kinds: [] }), /kinds/);
  assert.match(await createKey({ queues: ['a b'] }), /queues\.0: letters, digits/);
  assert.match(await createKey({ scopes: ['reed'] }), /scopes\.0: must be read, run/);
  assert.match(await createKey({ subject: 'endpont:x' }), /endpont:x.*endpoint:…, wallet:…/s);
  assert.match(await createKey({ subject: 'endpoint:' }), /endpoint:/);
  const valid = { kinds: ['command', 'batch'], queues: ['none-yet'], subject: 'endpoint:none-yet' };
  assert.equal(await createKey(valid), 'allowed');
  for (const [name, input] of [
    ['list_jobs', { kind: ['comand'] }],
    ['list_queues', { kind: 'comand' }],
    ['set_queue', { kind: 'comand', name: 'ci' }],
  ] as const)
    assert.equal(await admin.refusal(name, input), 'invalidInput', name);
});

test('a key limited to queues starts no job outside them', async (t) => {
  const { as } = await startWithOwners(t);
  const ci = as({ owner: 'ann', queues: ['ci'] });
  const page = { url: 'https://example.com/', waitMs: 0 };
  assert.equal(await ci.refusal('read_page', page), 'forbidden');
  assert.equal(await ci.refusal('run_command', { argv: ['true'] }), 'forbidden');
  assert.equal(await ci.refusal('run_command', { argv: ['true'], queue: 'ci' }), 'allowed');
});
