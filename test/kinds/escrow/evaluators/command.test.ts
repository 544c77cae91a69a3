// The operator's checks as real command jobs, with a server killed during one; also the limits for strangers and retention.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Retention } from '../../../../src/jobs/retention.ts';
import { startServer } from '../../../helpers/server.ts';
import { until } from '../../../helpers/until.ts';
import { openBank, type Json } from '../bank.ts';
import { createWorld, hourMs, posted, refusal } from '../world.ts';

const work = (client: string, provider: string, more: Record<string, unknown> = {}) => ({
  wallet: client,
  provider,
  budget: '1000000',
  title: 'x',
  description: 'x',
  fund: true,
  repeat: true,
  ...more,
});

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** Every operation that a key holder can try on a job. */
const actions = {
  fund: {},
  counter: { budget: '5' },
  decline: {},
  submit: { content: 'x' },
  evaluate: { verdict: 'approve', reason: 'x' },
  refund: {},
  dispute: { reason: 'x' },
};

test("command: the operator's check decides by its exit code, even after kill -9", async (t) => {
  const bank = await openBank(t, {
    escrow: {
      sweepMs: 100,
      evaluationRetryMs: 100,
      evaluationLeaseMs: 500,
      checks: {
        greets: { command: 'grep -q hello' },
        slow: { command: 'sleep 2; grep -q hello' },
      },
    },
  });
  const { home, call, client, provider } = bank;
  let { server } = bank;
  const submitted = async (check: string, content: string): Promise<string> => {
    const rule = { type: 'command', check };
    const { id } = await call(server, 'POST', '/api/work', work(client, provider, { rule }));
    await call(server, 'POST', `/api/work/${id}/submit`, { wallet: provider, content });
    return id;
  };
  const ended = (id: string) =>
    until(`${id} is decided`, async () => {
      const job = await call(server, 'GET', `/api/jobs/${id}`);
      return ['completed', 'rejected'].includes(job.stage) ? job : undefined;
    });
  const good = await submitted('greets', 'hello; rm -rf / $(touch x)');
  const bad = await submitted('greets', 'good bye');
  assert.equal((await ended(good)).stage, 'completed');
  const refused = await ended(bad);
  assert.equal(refused.stage, 'rejected');
  assert.match(refused.evaluation.reason, /greets/);
  const slow = await submitted('slow', 'hello');
  const checks = async () => (await call(server, 'GET', '/api/jobs?kind=command')).jobs as Json[];
  await until('the check runs', async () =>
    (await checks()).some(({ status }: Json) => status === 'running'),
  );
  await server.kill();
  server = await startServer(t, { home });
  const done = await ended(slow);
  assert.equal(done.stage, 'completed');
  assert.equal(done.transactions.filter(({ kind }: Json) => kind === 'complete').length, 1);
  assert.equal((await checks()).length, 3, 'each check ran as one job');
});

test('strangers can wait for a public job and cannot detect a private one', async (t) => {
  const { server, call, client, provider } = await openBank(t, {});
  const open = await call(server, 'POST', '/api/work', work(client, provider));
  const hidden = await call(
    server,
    'POST',
    '/api/work',
    work(client, provider, { visibility: 'private' }),
  );
  const ask = (path: string, body?: object) =>
    fetch(`${server.url}${path}`, {
      method: body ? 'POST' : 'GET',
      ...(body
        ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
        : {}),
    });
  const waiting = ask('/api/wait', { ids: [open.id], timeoutMs: 20_000 });
  await call(server, 'POST', `/api/work/${open.id}/decline`, { wallet: provider });
  const waited = (await (await waiting).json()) as Json;
  assert.equal(waited.jobs[0].stage, 'rejected', JSON.stringify(waited));
  // The same words as for a job that never existed, with and without a key.
  const nobody = 'job_0000000000000000';
  const stranger = await call(server, 'POST', '/api/keys', { owner: 'stranger' });
  const theirs = await server.api('POST', '/api/wallets', {}, bearer(stranger.key));
  const { id: wallet } = theirs.json<{ id: string }>();
  const said = async (id: string, key?: string): Promise<string[]> => {
    const at = async (method: string, path: string, body?: object) => {
      const headers = { 'content-type': 'application/json', ...(key ? bearer(key) : {}) };
      const url = `${server.url}${path}`;
      const sent = body ? { body: JSON.stringify(body) } : {};
      const answer = await fetch(url, { method, headers, ...sent });
      assert.equal(answer.status, 404, path);
      return (await answer.text()).replaceAll(id, 'ID');
    };
    const open = [
      at('GET', `/api/jobs/${id}`),
      at('POST', '/api/wait', { ids: [id], timeoutMs: 100 }),
      at('GET', `/api/work/${id}/spec`),
      at('GET', `/cardzero/v1/jobs/${id}`),
      at('GET', `/cardzero/v1/jobs/${id}/spec`),
    ];
    const tried = key === undefined ? [] : Object.entries(actions);
    const keyed = tried.map(([name, body]) =>
      at('POST', `/api/work/${id}/${name}`, { wallet, ...body }),
    );
    return Promise.all([...open, ...keyed]);
  };
  assert.deepEqual(await said(hidden.id), await said(nobody));
  assert.deepEqual(await said(hidden.id, stranger.key), await said(nobody, stranger.key));
  // An expired key counts as no key.
  const made = await call(server, 'POST', '/api/keys', { owner: 'guest', expiresInMs: 1000 });
  const guest = () => fetch(`${server.url}/api/wallets`, { headers: bearer(made.key) });
  assert.equal((await guest()).status, 200);
  await until('the key has run out', async () => (await guest()).status === 401);
});

test('strangers are rate limited while callers with a key continue', async (t) => {
  const http = { addressRate: 0.01, addressBurst: 4 };
  const { server, call, client, provider } = await openBank(t, { http });
  const { id } = await call(server, 'POST', '/api/work', work(client, provider));
  for (const path of [`/api/jobs/${id}`, `/cardzero/v1/jobs/${id}`]) {
    const looked = await until('it is enough', async () => {
      const answer = await fetch(`${server.url}${path}`);
      assert.ok([200, 429].includes(answer.status), path);
      return answer.status === 429 ? answer : undefined;
    });
    assert.ok(Number(looked.headers.get('retry-after')) > 0, path);
  }
  assert.equal((await call(server, 'GET', `/api/jobs/${id}`)).stage, 'funded');
});

test('with private visibility, jobs are private unless the client says otherwise', async (t) => {
  const world = await createWorld(t, { settings: { visibility: 'private' } });
  const client = await world.agent('client');
  const provider = await world.agent('provider');
  const hidden = await posted(world, client, provider);
  assert.equal(await refusal(world.call(undefined, 'get_job', { id: hidden.id })), 'notFound');
  assert.equal((await world.call(provider, 'get_job', { id: hidden.id })).stage, 'open');
  const shown = await posted(world, client, provider, { visibility: 'public', repeat: true });
  assert.equal((await world.call(undefined, 'get_job', { id: shown.id })).stage, 'open');
});

test('retention keeps escrow jobs of any age', async (t) => {
  const world = await createWorld(t);
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const { id } = await posted(world, client, provider, { fund: true });
  await world.call(provider, 'decline_work', { id });
  world.clock.jump(10_000 * hourMs);
  const limits = { maxAgeMs: 1, maxCount: 0, maxBytes: 0 };
  const { jobs } = world.services;
  assert.equal(await new Retention(jobs, world.clock, limits).prune(), 0);
  assert.equal((await world.call(undefined, 'get_job', { id })).stage, 'rejected');
});

test('every time limit of a job has an upper bound', async (t) => {
  const world = await createWorld(t);
  const [client, provider, arbiter] = await Promise.all([
    world.agent('client', '10.00'),
    world.agent('provider'),
    world.agent('arbiter'),
  ]);
  const forEver = Number.MAX_SAFE_INTEGER;
  const dispute = { arbiter: arbiter.wallet };
  for (const request of [
    { evaluationMs: forEver },
    { dispute: { ...dispute, windowMs: forEver } },
    { dispute: { ...dispute, resolveMs: forEver } },
  ])
    assert.equal(await refusal(posted(world, client, provider, request)), 'expiryTooLong');
});
