// One suite for every settlement: the same hires, through the same operations, end the same way.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  createWorld,
  hourMs,
  isoIn,
  posted,
  refusal,
  type Agent,
  type Answer,
  type World,
} from './world.ts';
import type { Outside } from '../../../src/kinds/escrow/assemble.ts';
import { createChainWorld } from './evm/chain-world.ts';

interface Ground {
  world: World;
  /** Lets the settlement finish what is under way and answers the job. */
  settled(id: string): Promise<Answer>;
  /** What a wallet has, in micro-units. */
  funds(who: Agent): Promise<number>;
  pass(ms: number): Promise<void>;
  sound(): Promise<void>;
}

/** The world outside: one page that answers, one check of the operator that reads the delivery. */
const outside: Partial<Outside> = {
  fetch: async () => ({ status: 200, headers: {}, body: Buffer.from('ok') }),
  runCheck: async ({ content }) => ({
    exitCode: content.toString() === 'fine' ? 0 : 1,
    jobId: 'job_0000000000000000',
  }),
};
const checks = { lint: { command: 'lint' } };

const settlements: { name: string; open(t: TestContext): Promise<Ground> }[] = [
  {
    name: 'ledger',
    open: async (t) => {
      const world = await createWorld(t, { outside, settings: { checks } });
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
      const world = await createChainWorld(t, { outside, settings: { checks } });
      return {
        world,
        settled: world.settled,
        funds: world.tokens,
        pass: world.pass,
        sound: async () => assert.equal(await world.tokens(world.escrowAddress), 0),
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
    const silent = await hire({ expiresAt: isoIn(world, hourMs) });
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
    assert.equal(await funds(client), 9_000_000, 'every refund is whole');
    await ground.sound();
  });

  test(`${settlement.name}: nothing moves without the right party, the money or the expected budget`, async (t) => {
    const ground = await settlement.open(t);
    const { world, settled, funds } = ground;
    const client = await world.agent('client', '1.50');
    const provider = await world.agent('provider');
    const job = await posted(world, client, provider);
    await settled(job.id);
    assert.equal(await refusal(world.call(provider, 'fund_work', { id: job.id })), 'notClient');
    await world.call(provider, 'counter_work', { id: job.id, budget: '2000000' });
    await settled(job.id);
    const blind = world.call(client, 'fund_work', { id: job.id, expectedBudget: '1000000' });
    assert.equal(await refusal(blind), 'budgetChanged');
    const poor = world.call(client, 'fund_work', { id: job.id, expectedBudget: '2000000' });
    assert.equal(await refusal(poor), 'insufficientBalance');
    assert.equal(await funds(client), 1_500_000);
    await world.call(client, 'counter_work', { id: job.id, budget: '1500000' });
    await settled(job.id);
    await world.call(client, 'fund_work', { id: job.id, expectedBudget: '1500000' });
    await settled(job.id);
    assert.equal(await funds(client), 0);
    const early = world.call(client, 'submit_work', { id: job.id, content: 'x' });
    assert.equal(await refusal(early), 'notProvider');
  });
}

for (const settlement of settlements) {
  test(`${settlement.name}: a rule decides, and the server brings its verdict to the money`, async (t) => {
    const ground = await settlement.open(t);
    const { world, settled, funds } = ground;
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const decided = async (rule: unknown, content: string) => {
      const { id } = await posted(world, client, provider, { rule, repeat: true });
      await settled(id);
      await world.call(client, 'fund_work', { id });
      await settled(id);
      await world.call(provider, 'submit_work', { id, content });
      await settled(id);
      // A chain's clock may be some seconds ahead of the server's.
      await ground.pass(60_000);
      await world.services.sweeper.sweep();
      return settled(id);
    };
    const schema = { type: 'object', required: ['words'] };
    const good = await decided({ type: 'json_schema', schema }, '{"words":3}');
    assert.deepEqual([good.stage, good.evaluation.by], ['completed', 'rule']);
    const bad = await decided({ type: 'json_schema', schema }, '{}');
    assert.equal(bad.stage, 'rejected');
    const page = await decided({ type: 'http_check', url: 'https://site.example/' }, 'x');
    assert.equal(page.stage, 'completed', JSON.stringify(page.evaluation));
    const checked = await decided({ type: 'command', check: 'lint' }, 'fine');
    assert.equal(checked.stage, 'completed', JSON.stringify(checked.evaluation));
    const refused = await decided({ type: 'command', check: 'lint' }, 'broken');
    assert.equal(refused.stage, 'rejected');
    assert.equal(await funds(client), 7_000_000);
    assert.equal(await funds(provider), 3 * 930_000);
    await ground.sound();
  });
}

test('evm: what the contract cannot do is refused at creation', async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client');
  const provider = await world.agent('provider');
  const wishes: Record<string, unknown>[] = [
    { milestones: [{ title: 'all', amount: '1000000' }] },
    { silence: 'split' },
    { silence: 'release' },
    { dispute: { arbiter: (await world.agent('arbiter')).wallet } },
    {
      rule: {
        type: 'quorum',
        need: 1,
        members: [
          { type: 'manual' },
          { type: 'manual', wallet: (await world.agent('judge')).wallet },
        ],
      },
    },
    { evaluationMs: 1 },
  ];
  for (const wish of wishes) {
    assert.equal(
      await refusal(posted(world, client, provider, { ...wish, repeat: true })),
      'unsupportedBySettlement',
      JSON.stringify(wish),
    );
  }
});
