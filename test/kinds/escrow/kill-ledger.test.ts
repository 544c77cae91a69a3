// Every transition of the ledger at once, and SIGKILL in the middle: each has happened whole or not at all, and the same
// call again makes it happen once.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

type Json = ReturnType<typeof JSON.parse>;

const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 20 : 2;

/** A job brought to the stage before, the call under test, the stages before and after it. */
interface Transition {
  name: string;
  terms?: Record<string, unknown>;
  prepare: string[];
  act: string;
  from: string;
  to: string;
}

const dispute = (arbiter: string) => ({ arbiter, windowMs: 0 });

function transitions(arbiter: string): Transition[] {
  const open: Omit<Transition, 'name' | 'act' | 'to'> = { prepare: [], from: 'open' };
  const funded = { prepare: ['fund'], from: 'funded' };
  const submitted = { prepare: ['fund', 'submit'], from: 'submitted' };
  const terms = { dispute: dispute(arbiter) };
  const milestones = [
    { title: 'first', amount: '400000' },
    { title: 'second', amount: '600000' },
  ];
  return [
    { name: 'counter', ...open, act: 'counter', to: 'open' },
    { name: 'fund', ...open, act: 'fund', to: 'funded' },
    { name: 'cancel', ...open, act: 'cancel', to: 'rejected' },
    { name: 'decline', ...funded, act: 'decline', to: 'rejected' },
    { name: 'submit', ...funded, act: 'submit', to: 'submitted' },
    { name: 'approve', ...submitted, act: 'approve', to: 'completed' },
    { name: 'reject', ...submitted, act: 'reject', to: 'rejected' },
    { name: 'dispute', ...submitted, terms, act: 'dispute', to: 'disputed' },
    {
      name: 'split',
      prepare: ['fund', 'submit', 'dispute'],
      from: 'disputed',
      terms,
      act: 'resolve',
      to: 'completed',
    },
    { name: 'milestone', ...submitted, terms: { milestones }, act: 'approve', to: 'funded' },
    { name: 'refund', ...funded, terms: { brief: true }, act: 'refund', to: 'expired' },
  ];
}

test('kill -9 in every transition of the ledger: whole or not at all, and once', async (t) => {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  // The sweep would refund what is overdue before the test can.
  const settings = { expiryMsMin: 1, sweepMs: 3_600_000 };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ escrow: settings }));
  let server: TestServer = await startServer(t, { home });
  const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await server.api(method, path, body);
    if (answer.status >= 400) throw new Error(`${path}: ${answer.text}`);
    return answer.json();
  };
  const wallet = async (name: string): Promise<string> =>
    (await call('POST', '/api/wallets', { name })).id;
  const [client, provider, arbiter] = [
    await wallet('client'),
    await wallet('provider'),
    await wallet('arbiter'),
  ];
  await call('POST', '/api/escrow/mint', { wallet: client, amount: '1000', transferId: 'start' });

  const post = (key: string, { brief, ...terms }: Record<string, unknown> = {}) =>
    call('POST', '/api/work', {
      wallet: client,
      provider,
      budget: '1000000',
      title: key,
      description: 'x',
      idempotencyKey: key,
      repeat: true,
      ...(brief ? { expiresAt: new Date(Date.now() + 1500).toISOString() } : {}),
      ...terms,
    });
  const bodies: Record<string, [string, object]> = {
    counter: ['counter', { wallet: provider, budget: '1200000' }],
    fund: ['fund', { wallet: client }],
    cancel: ['decline', { wallet: client }],
    decline: ['decline', { wallet: provider }],
    submit: ['submit', { wallet: provider, content: 'done' }],
    approve: ['evaluate', { wallet: client, verdict: 'approve', reason: 'ok' }],
    reject: ['evaluate', { wallet: client, verdict: 'reject', reason: 'no' }],
    dispute: ['dispute', { wallet: client, reason: 'not what I asked for' }],
    resolve: ['dispute', { wallet: arbiter, reason: 'half', resolution: 'split', splitBps: 5000 }],
    refund: ['refund', { wallet: client }],
  };
  const act = (id: string, name: string) => {
    const [path, body] = bodies[name]!;
    return call('POST', `/api/work/${id}/${path}`, body);
  };
  const stageOf = async (id: string) => (await call('GET', `/api/jobs/${id}`)).stage as string;

  for (let round = 0; round < rounds; round++) {
    const jobs = await Promise.all(
      transitions(arbiter).map(async (transition) => {
        const { id } = await post(`${transition.name} ${round}`, transition.terms);
        for (const step of transition.prepare) await act(id, step);
        return { ...transition, id: id as string };
      }),
    );
    const overdue = jobs.find(({ act: name }) => name === 'refund')!;
    await until('the brief one is overdue', async () => {
      const job = await call('GET', `/api/jobs/${overdue.id}`);
      return Date.parse(job.deadline) < Date.now();
    });
    const payment = {
      wallet: client,
      to: provider,
      amount: '0.50',
      idempotencyKey: `pay ${round}`,
    };
    const mint = { wallet: provider, amount: '1', transferId: `mint ${round}` };
    const others = () => [
      post(`posted ${round}`),
      call('POST', '/api/payments', payment),
      call('POST', '/api/escrow/mint', mint),
    ];
    const dying = Promise.allSettled([...jobs.map((one) => act(one.id, one.act)), ...others()]);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
    await server.kill();
    await dying;
    server = await startServer(t, { home });
    assert.deepEqual((await call('GET', '/api/escrow/verify')).problems, [], `round ${round}`);
    for (const one of jobs) {
      const stage = await stageOf(one.id);
      assert.ok([one.from, one.to].includes(stage), `${one.name}: ${stage}`);
    }
    // The caller never got an answer and asks again.
    await Promise.all([...jobs.map((one) => act(one.id, one.act)), ...others()]);
    for (const one of jobs) assert.equal(await stageOf(one.id), one.to, one.name);
    for (const { id } of jobs.filter(({ name }) => name === 'milestone')) await act(id, 'decline');
  }
  const { wallets } = await call('GET', '/api/wallets');
  const balance = (id: string) =>
    Number(wallets.find((one: Json) => one.id === id).balanceMicro) / rounds;
  // approve 930000, split 465000, milestone 372000, payment 500000, mint 1000000.
  assert.equal(balance(provider), 3_267_000);
  const books = await call('GET', '/api/escrow/verify');
  assert.deepEqual(books.problems, []);
  // The funded, the submitted and the disputed one of each round.
  assert.equal(books.escrowed, String(rounds * 3_000_000));
});
