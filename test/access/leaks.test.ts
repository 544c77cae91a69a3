// What limited keys and other owners' keys must not learn or change through side effects: job references, conflicts, shared
// endpoints, later responses and recreated endpoints. On both stores.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { startApp } from '../helpers/app.ts';
import { migratedDatabase } from '../helpers/postgres.ts';

const stores: [string, () => Promise<Record<string, string>>][] = [
  ['sqlite', async () => ({})],
  ['postgres', async () => ({ ERRAND_STORE: await migratedDatabase(allMigrations()) })],
];

for (const [store, env] of stores) {
  test(`leaks between keys on ${store}`, async (t) => {
    const place = await createPlace(t, await env());
    await t.test('a name, a prefix or @last finds no job outside the limits', () =>
      references(place),
    );
    await t.test('other jobs do not hide a job that the key can reach', () => hidden(place));
    await t.test('a rerun stays within the limits of the key', () => reruns(place));
    await t.test('a conflict names no job outside the limits', () => conflicts(place));
    await t.test(
      'only those who manage the endpoint cancel jobs of other owners with a purge',
      () => purges(place),
    );
    await t.test('only the client gets the client view in a later response', () =>
      laterResponses(place),
    );
    await t.test(
      'a key bound to an endpoint is invalid for the same endpoint of another owner',
      () => recreated(place),
    );
  });
}

type Place = Awaited<ReturnType<typeof createPlace>>;
interface Found {
  code: string;
  text: string;
  output?: unknown;
}

async function createPlace(t: TestContext, env: Record<string, string>) {
  const { app, call } = await startApp(t, { endpoints: { shared: {} } }, { env });
  const signal = new AbortController().signal;
  /** Creates a key and calls operations with it. */
  const holder = async (request: object) => {
    const { key } = await call<{ key: string }>('create_key', {
      scopes: ['read', 'run'],
      ...request,
    });
    const caller = (await app.access.authenticate(key))!;
    const found = (name: string, input: object): Promise<Found> =>
      app.operations.call(name, input, { caller, signal }).then(
        (output) => ({ code: 'ok', text: JSON.stringify(output), output }),
        ({ code, message, hint, data }: Record<string, unknown>) => ({
          code: String(code),
          text: JSON.stringify({ message, hint, data }),
        }),
      );
    const id = async (name: string, input: object): Promise<string> => {
      const { code, text, output } = await found(name, input);
      assert.equal(code, 'ok', text);
      return (output as { id: string }).id;
    };
    return { caller, found, id };
  };
  const [ann, bob] = [await holder({ owner: 'ann' }), await holder({ owner: 'bob' })];
  return { app, call, holder, ann, bob, signal };
}

const later = '2999-01-01T00:00:00Z';
const waiting = { argv: ['true'], waitMs: 0, runAt: later };

async function references({ ann, bob, holder }: Place): Promise<void> {
  const secret = await ann.id('run_command', { ...waiting, name: 'secret' });
  const ci = await ann.id('run_command', { ...waiting, queue: 'ci', name: 'open' });
  const other = await ann.id('run_command', { ...waiting, name: 'open' });
  await bob.id('run_command', { ...waiting, name: 'bobs' });
  const limited = [
    await holder({ owner: 'ann', queues: ['ci'] }),
    await holder({ owner: 'ann', kinds: ['web'] }),
    await holder({ owner: 'ann', subject: 'endpoint:shared' }),
  ];
  const prefix = secret.slice(4, 14);
  const operations = ['get_job', 'list_events', 'cancel_job', 'retry_job', 'rerun_job', 'delete_job', 'pin_job']; // prettier-ignore
  for (const { found } of limited)
    for (const name of operations)
      for (const text of ['secret', prefix, `job_${prefix}`, 'bobs']) {
        const rejected = await found(name, { id: text });
        const absent = await found(name, { id: `${text}x` });
        assert.deepEqual(
          { ...rejected, text: rejected.text.replaceAll(text, '') },
          { ...absent, text: absent.text.replaceAll(`${text}x`, '') },
          `${name} ${text}`,
        );
        assert.equal(rejected.code, 'notFound', `${name} ${text}`);
      }
  const [queue, web, bound] = limited;
  const named = await queue!.found('get_job', { id: 'open' });
  assert.equal((named.output as { id: string }).id, ci, 'the job in its queue is unambiguous');
  assert.ok(!named.text.includes(other));
  assert.equal((await queue!.found('get_job', { id: '@last' })).text.includes(ci), true);
  const after = { ...waiting, queue: 'ci', after: ['secret'] };
  assert.equal((await queue!.found('run_command', after)).code, 'notFound');
  for (const { found } of [web!, bound!])
    assert.equal((await found('get_job', { id: '@last' })).code, 'notFound');
  const worker = await holder({ owner: 'ann', scopes: ['worker'] });
  const texts = [secret, 'secret', prefix, '@last', 'none'];
  const codes = await Promise.all(
    texts.map(async (id) => (await worker.found('get_job', { id })).code),
  );
  assert.deepEqual(
    [...new Set(codes)],
    ['forbidden'],
    'the same error whether the job exists or not',
  );
}

async function hidden({ ann, holder, app }: Place): Promise<void> {
  const queue = await holder({ owner: 'ann', queues: ['quiet'] });
  const first = await queue.id('run_command', { ...waiting, queue: 'quiet', name: 'same' });
  const many = Array.from({ length: 60 }, () => ({ kind: 'command', owner: 'ann', name: 'same' }));
  const input = { argv: ['true'] };
  await app.jobs.submitMany(many.map((one) => ({ ...one, input, runAt: Date.parse(later) })));
  for (const id of ['@last', 'same'])
    assert.equal(((await queue.found('get_job', { id })).output as { id: string }).id, first, id);
  const { code, text } = await ann.found('get_job', { id: 'same' });
  assert.equal(code, 'conflict', text);
}

async function reruns({ ann, bob, holder, app }: Place): Promise<void> {
  const done = async (who: Place['ann'], more: object) => {
    const id = await who.id('run_command', { ...waiting, ...more });
    await who.id('cancel_job', { id });
    return id;
  };
  const [ci, other, foreign] = [
    await done(ann, { queue: 'ci' }),
    await done(ann, {}),
    await done(bob, { queue: 'ci' }),
  ];
  const queue = await holder({ owner: 'ann', queues: ['ci'] });
  const again = await app.jobs.get(await queue.id('rerun_job', { id: ci }));
  assert.deepEqual([again.kind, again.queue, again.owner], ['command', 'ci', 'ann']);
  for (const id of [other, foreign])
    assert.equal((await queue.found('rerun_job', { id })).code, 'notFound');
  const web = await holder({ owner: 'ann', kinds: ['web'] });
  assert.equal((await web.found('rerun_job', { id: ci })).code, 'notFound');
  await ann.id('save_endpoint', { id: 'brief' });
  const job = await ann.id('run_endpoint', { endpointId: 'brief', input: 1 });
  await ann.id('delete_endpoint', { id: 'brief' });
  await bob.id('save_endpoint', { id: 'brief' });
  const onOther = await ann.found('rerun_job', { id: job });
  assert.equal(onOther.code, 'notFound', 'the endpoint belongs to another owner now');
}

async function conflicts({ ann, holder }: Place): Promise<void> {
  const idempotencyKey = 'release';
  const id = await ann.id('run_command', { ...waiting, idempotencyKey });
  const queue = await holder({ owner: 'ann', queues: ['ci'] });
  const inOther = await queue.found('run_command', { ...waiting, queue: 'ci', idempotencyKey });
  assert.equal(inOther.code, 'idempotencyConflict');
  assert.ok(!inOther.text.includes(id), inOther.text);
  const endpoint = await holder({ owner: 'ann', subject: 'endpoint:shared' });
  const request = { endpointId: 'shared', input: 1, idempotencyKey };
  const ofKind = await endpoint.found('run_endpoint', request);
  assert.equal(ofKind.code, 'idempotencyConflict');
  assert.ok(!ofKind.text.includes(id), ofKind.text);
  const same = await ann.found('run_command', { ...waiting, argv: ['false'], idempotencyKey });
  assert.ok(same.text.includes(id), 'a key that can reach the job gets its id');
}

async function purges({ ann, bob, holder, app }: Place): Promise<void> {
  const submit = (who: Place['ann']) => who.id('run_endpoint', { endpointId: 'shared', input: 1 });
  const statuses = async (...ids: string[]) =>
    (await app.jobs.ledger.findMany(ids)).map(({ status }) => status).toSorted();
  const [mine, foreign] = [await submit(ann), await submit(bob)];
  const bound = await holder({ owner: 'ann', subject: 'endpoint:shared' });
  const removed = (await bound.found('purge_queue', { endpointId: 'shared' })).output;
  assert.deepEqual(removed, { removed: 1 });
  assert.deepEqual(await statuses(mine), ['cancelled']);
  assert.deepEqual(await statuses(foreign), ['queued'], 'a job of another owner stays queued');
  const admin = await holder({ owner: 'ann', scopes: ['admin'] });
  assert.deepEqual((await admin.found('purge_queue', { endpointId: 'shared' })).output, { removed: 1 }); // prettier-ignore
  assert.deepEqual(await statuses(foreign), ['cancelled']);
}

async function laterResponses({ ann, bob, holder, app, call, signal }: Place): Promise<void> {
  const wallet = (who: Place['ann']) => who.id('create_wallet', {});
  const [client, second, provider] = [await wallet(ann), await wallet(ann), await wallet(bob)];
  await call('mint_credit', { wallet: client, amount: '10', transferId: client });
  const id = await ann.id('post_work', {
    ...{ wallet: client, provider, budget: '1', title: 'a', description: 'b' },
    visibility: 'public',
  });
  const operation = app.operations.get('post_work');
  const laterResponse = (who: Place['ann']) =>
    app.operations.outputFor(operation, id, { caller: who.caller, signal });
  assert.equal(((await laterResponse(ann)) as { id: string }).id, id);
  const own = await holder({ owner: 'ann', subject: `wallet:${client}` });
  assert.equal(((await laterResponse(own)) as { id: string }).id, id);
  for (const who of [bob, await holder({ owner: 'carl' })])
    assert.equal(await laterResponse(who), undefined, 'only the client gets its response');
  const other = await holder({ owner: 'ann', subject: `wallet:${second}` });
  await assert.rejects(() => laterResponse(other), { code: 'notFound' });
}

async function recreated({ ann, bob, holder }: Place): Promise<void> {
  const endpointId = 'again';
  await ann.id('save_endpoint', { id: endpointId });
  const scopes = ['worker'];
  const bound = await holder({ owner: 'ann', scopes, subject: `endpoint:${endpointId}` });
  const early = await holder({ owner: 'carl', scopes, subject: `endpoint:${endpointId}` });
  const take = { endpointId, workerId: 'w1', waitMs: 0 };
  assert.equal((await bound.found('take_jobs', take)).code, 'ok');
  await ann.id('delete_endpoint', { id: endpointId });
  await bob.id('save_endpoint', { id: endpointId });
  const job = await bob.id('run_endpoint', { endpointId, input: 'private' });
  for (const { found } of [bound, early])
    for (const [name, input] of [
      ['take_jobs', take],
      ['poll_stops', take],
      ['ping_worker', { endpointId, workerId: 'w1' }],
    ] as const) {
      const rejected = await found(name, input);
      assert.equal(rejected.code, 'notFound', name);
      assert.ok(!rejected.text.includes('private'), name);
    }
  const own = await holder({ owner: 'bob', scopes, subject: `endpoint:${endpointId}` });
  const taken = await own.found('take_jobs', { ...take, waitMs: 20_000 });
  assert.ok(taken.text.includes(job), taken.text);
}
