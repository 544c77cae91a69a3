// What a key may not do: it hears of nobody else's jobs, and one that is limited to kinds reaches no other kind, neither
// its operations nor its news.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Caller } from '../../src/operation.ts';
import { startApp } from '../helpers/app.ts';

async function people(t: TestContext) {
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

test('a webhook on one job is for those who may read that job', async (t) => {
  const { as, ann, jobId } = await people(t);
  const bob = as({ owner: 'bob' });
  assert.equal(await bob.refusal('create_webhook', { ...hook, jobId }), 'notFound');
  assert.equal(await bob.refusal('create_webhook', { ...hook, jobId: 'job_none' }), 'notFound');
  assert.equal(await ann.refusal('create_webhook', { ...hook, jobId }), 'allowed');
  assert.equal(await bob.refusal('create_webhook', hook), 'allowed');
});

test('a key that is limited neither hears of everything its owner does nor ends who does', async (t) => {
  const { as, ann, jobId } = await people(t);
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

test('a key that is limited sees its own queues only', async (t) => {
  const { as, ann } = await people(t);
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

test('a key sees how many jobs of its own a shared queue has, and no queue of others', async (t) => {
  const { as, ann } = await people(t);
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

test('a key that is limited to kinds calls operations of those kinds only', async (t) => {
  const { as, jobId } = await people(t);
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

test('a key that is limited to endpoints sees the batches that it makes', async (t) => {
  const { as, access } = await people(t);
  const admin = as({ owner: 'owner', admin: true, scopes: new Set(['admin']) });
  await admin.call('save_endpoint', { id: 'model' });
  const { key } = await admin.call<{ key: string }>('create_key', { kinds: ['endpoint'] });
  const limited = as((await access.authenticate(key))!);
  const batch = await limited.call('run_batch', { endpointId: 'model', inputs: [1, 2] });
  const { id, createdAt } = batch as { id: string; createdAt: string };
  assert.ok(!Number.isNaN(Date.parse(createdAt)), 'a time like all others');
  assert.equal(await limited.refusal('get_batch', { batchId: id, endpointId: 'model' }), 'allowed');
  assert.equal(await limited.refusal('get_job', { id }), 'allowed');
  const { jobs } = await limited.call<{ jobs: { kind: string }[] }>('list_jobs');
  assert.deepEqual(jobs.map(({ kind }) => kind).toSorted(), ['batch', 'endpoint', 'endpoint']);
});

test('a key is limited only to what there can be', async (t) => {
  const { as } = await people(t);
  const admin = as({ owner: 'owner', admin: true, scopes: new Set(['admin']) });
  const told = (wish: object) =>
    admin.call('create_key', wish).then(
      () => 'allowed',
      ({ message, hint }: { message: string; hint: string }) => `${message} ${hint}`,
    );
  assert.match(await told({ kinds: ['comand'] }), /kind.* comand.*command, .*web/s);
  assert.match(await told({ kinds: [] }), /kinds/);
  assert.match(await told({ queues: ['a b'] }), /queues\.0: letters, digits/);
  assert.match(await told({ scopes: ['reed'] }), /scopes\.0: must be read, run/);
  assert.match(await told({ subject: 'endpont:x' }), /endpont:x.*endpoint:…, wallet:…/s);
  assert.match(await told({ subject: 'endpoint:' }), /endpoint:/);
  const wish = { kinds: ['command', 'batch'], queues: ['none-yet'], subject: 'endpoint:none-yet' };
  assert.equal(await told(wish), 'allowed');
  for (const [name, input] of [
    ['list_jobs', { kind: ['comand'] }],
    ['list_queues', { kind: 'comand' }],
    ['set_queue', { kind: 'comand', name: 'ci' }],
  ] as const)
    assert.equal(await admin.refusal(name, input), 'invalidInput', name);
});

test('a key that is limited to queues starts nothing outside of them', async (t) => {
  const { as } = await people(t);
  const ci = as({ owner: 'ann', queues: ['ci'] });
  const page = { url: 'https://example.com/', waitMs: 0 };
  assert.equal(await ci.refusal('read_page', page), 'forbidden');
  assert.equal(await ci.refusal('run_command', { argv: ['true'] }), 'forbidden');
  assert.equal(await ci.refusal('run_command', { argv: ['true'], queue: 'ci' }), 'allowed');
});
