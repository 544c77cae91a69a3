// One suite for every settlement: the same hires through the same operations end the same way.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { keccak256 } from '../../../../src/runtime/keccak.ts';
import { until } from '../../../helpers/until.ts';
import { openBank } from '../bank.ts';
import {
  createWorld,
  hourMs,
  isoIn,
  posted,
  refusal,
  type Agent,
  type Answer,
  type World,
  specOf,
} from '../world.ts';
import { createChainWorld } from './evm/chain-world.ts';
import { startChain } from './evm/chain-home.ts';
import { openSite, type Page } from '../site.ts';

interface Ground {
  world: World;
  /** Lets the settlement finish pending actions and returns the job. */
  settled(id: string): Promise<Answer>;
  /** A wallet's balance, in micro-units. */
  funds(who: Agent): Promise<number>;
  pass(ms: number): Promise<void>;
  sound(): Promise<void>;
}

const settlements: { name: string; open(t: TestContext): Promise<Ground> }[] = [
  {
    name: 'ledger',
    open: async (t) => {
      const world = await createWorld(t);
      return {
        world,
        settled: (id) => world.call(world.admin, 'get_job', { id }),
        funds: (who) => world.balance(who),
        pass: async (ms) => world.clock.jump(ms),
        sound: async () => {
          assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
        },
      };
    },
  },
  {
    name: 'evm',
    open: async (t) => {
      const world = await createChainWorld(t);
      return {
        world,
        settled: world.settled,
        funds: world.tokens,
        pass: world.pass,
        sound: async () => {
          const { problems, settlements: found } = await world.call(world.admin, 'verify_escrow');
          assert.deepEqual([problems, found.evm.escrowed], [[], '0']);
        },
      };
    },
  },
];

for (const settlement of settlements) {
  test(`${settlement.name}: hire, deliver, approve; reject; decline; expire; silence`, async (t) => {
    const ground = await settlement.open(t);
    const { world, settled, funds } = ground;
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const judge = await world.agent('judge');
    const rule = { type: 'manual', wallet: judge.wallet };
    const hire = async (more: Record<string, unknown> = {}) => {
      const job = await posted(world, client, provider, { rule, repeat: true, ...more });
      await settled(job.id);
      await world.call(client, 'fund_work', { id: job.id });
      const funded = await settled(job.id);
      assert.equal(funded.stage, 'funded');
      return funded;
    };
    const deliver = async (id: string) => {
      await world.call(provider, 'submit_work', { id, content: `work for ${id}` });
      assert.equal((await settled(id)).stage, 'submitted');
    };
    const judged = async (id: string, verdict: string) => {
      await world.call(judge, 'evaluate_work', { id, verdict, reason: 'as agreed' });
      return settled(id);
    };

    const good = await hire();
    assert.equal(await funds(client), 9_000_000);
    assert.equal(good.held, '1000000');
    await deliver(good.id);
    const done = await judged(good.id, 'approve');
    assert.equal(done.stage, 'completed');
    assert.equal(done.status, 'completed');
    assert.deepEqual(
      [await funds(client), await funds(provider), await funds(judge)],
      [9_000_000, 930_000, 50_000],
    );

    const bad = await hire();
    await deliver(bad.id);
    assert.equal((await judged(bad.id, 'reject')).stage, 'rejected');
    assert.equal(await funds(client), 9_000_000);

    const declined = await hire();
    await world.call(provider, 'decline_work', { id: declined.id });
    assert.equal((await settled(declined.id)).status, 'cancelled');

    const late = await hire({ expiresAt: isoIn(world, hourMs) });
    const silent = await hire({ expiresAt: isoIn(world, hourMs), silence: 'refund' });
    await deliver(silent.id);
    assert.equal(
      await refusal(world.call(client, 'refund_work', { id: late.id })),
      'notYetExpired',
    );
    await ground.pass(hourMs + 2000);
    await world.services.sweeper.sweep();
    assert.equal((await settled(late.id)).stage, 'expired');
    await ground.pass(2 * hourMs);
    await world.services.sweeper.sweep();
    const expired = await settled(silent.id);
    assert.equal(expired.stage, 'expired');
    assert.equal(await funds(client), 9_000_000, 'every refund is complete');
    await ground.sound();
  });

  test(`${settlement.name}: nothing moves without the right party, enough money and the expected budget`, async (t) => {
    const ground = await settlement.open(t);
    const { world, settled, funds } = ground;
    const client = await world.agent('client', '1.50');
    const provider = await world.agent('provider');
    const job = await posted(world, client, provider);
    await settled(job.id);
    assert.equal(await refusal(world.call(provider, 'fund_work', { id: job.id })), 'notClient');
    await world.call(provider, 'counter_work', { id: job.id, budget: '2000000' });
    await settled(job.id);
    const stale = world.call(client, 'fund_work', { id: job.id, expectedBudget: '1000000' });
    assert.equal(await refusal(stale), 'budgetChanged');
    const blind = world.call(client, 'fund_work', { id: job.id });
    assert.equal(await refusal(blind), 'budgetChanged');
    const poor = world.call(client, 'fund_work', { id: job.id, expectedBudget: '2000000' });
    assert.equal(await refusal(poor), 'insufficientBalance');
    assert.equal(await funds(client), 1_500_000);
    await world.call(client, 'counter_work', { id: job.id, budget: '1500000' });
    await settled(job.id);
    await world.call(client, 'fund_work', { id: job.id });
    const agreed = await settled(job.id);
    assert.deepEqual([agreed.held, agreed.budget], ['1500000', '1500000']);
    assert.equal(await funds(client), 0);
    const spec = await specOf(world, job.id);
    assert.equal(JSON.parse(spec).budget.amount, '1500000');
    const early = world.call(client, 'submit_work', { id: job.id, content: 'x' });
    assert.equal(await refusal(early), 'notProvider');

    const freeze = async (frozen: boolean) => {
      for (const { wallet } of [client, provider]) {
        await world.call(world.admin, 'update_wallet', { wallet, frozen });
      }
    };
    const submit = () => world.call(provider, 'submit_work', { id: job.id, content: 'x' });
    const approve = { id: job.id, verdict: 'approve', reason: 'x' };
    await freeze(true);
    assert.equal(await refusal(submit()), 'walletFrozen');
    await freeze(false);
    await submit();
    await settled(job.id);
    await freeze(true);
    assert.equal(await refusal(world.call(client, 'evaluate_work', approve)), 'walletFrozen');
    await world.call(client, 'evaluate_work', { ...approve, verdict: 'reject' });
    assert.equal((await settled(job.id)).stage, 'rejected', 'a freeze never stops a refund');
    assert.equal(await funds(client), 1_500_000);
  });

  test(`${settlement.name}: a quorum of people and rules decides together`, async (t) => {
    const { world, settled, funds } = await settlement.open(t);
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const [ann, ben] = [await world.agent('ann'), await world.agent('ben')];
    const members = [
      { type: 'json_schema', schema: { type: 'object' } },
      { type: 'manual', wallet: ann.wallet },
      { type: 'manual', wallet: ben.wallet },
    ];
    const delivered = async (content: string) => {
      const rule = { type: 'quorum', need: 2, members };
      const { id } = await posted(world, client, provider, { rule, repeat: true });
      await settled(id);
      await world.call(client, 'fund_work', { id });
      await settled(id);
      await world.call(provider, 'submit_work', { id, content });
      await settled(id);
      // A chain's clock may be some seconds ahead of the server's.
      world.clock.jump(60_000);
      await world.services.sweeper.sweep();
      return id;
    };
    const vote = (who: Agent, id: string, verdict: string) =>
      world.call(who, 'evaluate_work', { id, verdict, reason: 'my view' });
    const good = await delivered('{}');
    await vote(ann, good, 'reject');
    assert.equal((await settled(good)).stage, 'submitted', 'one of each');
    await vote(ben, good, 'approve');
    const done = await settled(good);
    assert.equal(done.stage, 'completed');
    assert.match(done.evaluation.reason, /2 of 3 approve/);
    assert.deepEqual(
      done.evaluation.votes.map(({ outcome }: Answer) => outcome),
      ['approved', 'rejected', 'approved'],
    );
    const bad = await delivered('[]');
    await vote(ann, bad, 'reject');
    assert.equal((await settled(bad)).stage, 'rejected');
    assert.deepEqual([await funds(client), await funds(provider)], [9_000_000, 930_000]);
  });
}

/** One page for each case that a rule may encounter. */
function pages(): Page {
  const answers: Record<string, (response: ServerResponse) => void> = {
    '/words.json': (response) => response.end(words),
    '/inside': (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
  };
  return ({ url }, response) => answers[url!]!(response);
}

const words = '{"words":3}';

for (const name of ['ledger', 'evm'] as const) {
  test(`${name}: real pages, real commands and a schema decide, and the verdict moves the money`, async (t) => {
    const site = await openSite(t, pages());
    const escrow = {
      sweepMs: 50,
      checks: { fine: { command: 'grep -qx fine' } },
    };
    const chain = name === 'evm' ? await startChain(t) : undefined;
    const bank = await openBank(t, { escrow, egress: { allow: [site.host] } }, chain);
    const { server, client, provider } = bank;
    const call = (method: string, path: string, body?: object) =>
      bank.call(server, method, path, body);
    const reached = (id: string, ...stages: string[]) =>
      until(
        `${id} is ${stages.join(' or ')}`,
        async () => {
          const job = await call('GET', `/api/jobs/${id}`);
          return stages.includes(job.stage) && job.settling === undefined ? job : undefined;
        },
        // All of them wait for transactions on the same chain.
        120_000,
      );
    const decided = async (rule: unknown, delivery: Record<string, unknown>) => {
      const { id } = await call('POST', '/api/work', {
        ...{ wallet: client, provider, budget: '1000000', title: 'x', description: 'x' },
        ...{ rule, repeat: true, fund: true },
      });
      await reached(id, 'funded');
      await call('POST', `/api/work/${id}/submit`, { wallet: provider, ...delivery });
      const { stage, evaluation } = await reached(id, 'completed', 'rejected');
      return `${stage}: ${evaluation.reason}`;
    };
    const schema = { type: 'json_schema', schema: { type: 'object', required: ['words'] } };
    const page = { type: 'http_check', url: `${site.url}words.json` };
    const check = { type: 'command', check: 'fine' };
    const at = (path: string) => ({ uri: `${site.url}${path}`, contentHash: keccak256(words) });
    const cases: [unknown, Record<string, unknown>, RegExp][] = [
      [schema, at('words.json'), /^completed: json_schema: valid/],
      [schema, { content: '{}' }, /^rejected: json_schema: .*words/],
      [schema, at('inside'), /^rejected: .*may not reach/],
      [page, { content: 'x' }, /^completed: http_check: 200/],
      [
        { ...page, jsonMatch: { words: 4 } },
        { content: 'x' },
        /^rejected: .*field “words” differs/,
      ],
      [check, { content: 'fine' }, /^completed: command fine: exit code 0/],
      [check, { content: 'broken' }, /^rejected: command fine: exit code 1/],
    ];
    const ends = await Promise.all(cases.map(([rule, delivery]) => decided(rule, delivery)));
    for (const [i, end] of ends.entries()) assert.match(end, cases[i]![2]);
    const paid = cases.filter(([, , end]) => end.source.startsWith('^completed')).length;
    assert.deepEqual(await bank.funds(server), [100_000_000 - paid * 1_000_000, paid * 930_000]);
    const { jobs } = await call('GET', '/api/jobs?kind=command');
    const commands = jobs.map(({ name: title, status }: Answer) => `${title} ${status}`);
    assert.deepEqual(commands.toSorted(), ['check fine completed', 'check fine failed']);
    const books = await call('GET', '/api/escrow/verify');
    assert.equal(chain ? books.settlements.evm.escrowed : books.escrowed, '0');
    const earned = { platform: String(paid * 20_000), evaluator: String(paid * 50_000) };
    assert.deepEqual(chain ? books.settlements.evm.fees : books.fees, earned);
  });
}

test('evm: terms that the contract does not support are refused at creation', async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client');
  const provider = await world.agent('provider');
  const unsupported: Record<string, unknown>[] = [
    { milestones: [{ title: 'all', amount: '1000000' }] },
    { silence: 'split' },
    { dispute: { arbiter: (await world.agent('arbiter')).wallet } },
    { dispute: { arbiter: (await world.agent('judge')).wallet, windowMs: hourMs } },
    { evaluationMs: 1 },
    { fundBy: isoIn(world, hourMs) },
  ];
  for (const request of unsupported) {
    assert.equal(
      await refusal(posted(world, client, provider, { ...request, repeat: true })),
      'unsupportedBySettlement',
      JSON.stringify(request),
    );
  }
});
