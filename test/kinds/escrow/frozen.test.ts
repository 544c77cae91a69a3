// A frozen wallet in every role and stage: it cannot spend, and nothing keeps money from going back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWorld, hourMs, isoIn, posted, refusal, type Agent, type World } from './world.ts';

const stages = ['open', 'funded', 'submitted', 'decided', 'disputed'] as const;
type Stage = (typeof stages)[number];

interface Cast {
  client: Agent;
  provider: Agent;
  judge: Agent;
  arbiter: Agent;
}

const evaluate = (verdict: string) => ({ verdict, reason: 'x' });

/** A job between these four parties in the given stage. */
async function jobIn(world: World, cast: Cast, stage: Stage): Promise<string> {
  const { client, provider, judge, arbiter } = cast;
  const { id } = await posted(world, client, provider, {
    rule: { type: 'manual', wallet: judge.wallet },
    dispute: { arbiter: arbiter.wallet, windowMs: hourMs, resolveMs: hourMs },
    repeat: true,
  });
  const steps: [Stage, () => Promise<unknown>][] = [
    ['funded', () => world.call(client, 'fund_work', { id })],
    ['submitted', () => world.call(provider, 'submit_work', { id, content: 'x' })],
    ['decided', () => world.call(judge, 'evaluate_work', { id, ...evaluate('approve') })],
    ['disputed', () => world.call(client, 'dispute_work', { id, reason: 'x' })],
  ];
  for (const [reached, step] of steps) {
    if (stages.indexOf(reached) <= stages.indexOf(stage)) await step();
  }
  return id;
}

/** What each party may still do while its own wallet is frozen; the deadline reaches every other end. */
const possible: Record<Stage, [keyof Cast, string, Record<string, unknown>, string][]> = {
  open: [
    ['client', 'decline_work', {}, 'rejected'],
    ['provider', 'decline_work', {}, 'rejected'],
  ],
  funded: [['provider', 'decline_work', {}, 'rejected']],
  submitted: [
    ['judge', 'evaluate_work', evaluate('reject'), 'submitted'],
    ['provider', 'decline_work', {}, 'rejected'],
  ],
  decided: [['client', 'dispute_work', { reason: 'x' }, 'disputed']],
  disputed: [['arbiter', 'dispute_work', { reason: 'x', resolution: 'refund' }, 'rejected']],
};

/** What a frozen wallet may not do: everything that moves money closer to leaving the escrow. */
const stopped: Record<Stage, [keyof Cast, string, Record<string, unknown>][]> = {
  open: [
    ['client', 'fund_work', {}],
    ['client', 'counter_work', { budget: '2000000' }],
    ['provider', 'counter_work', { budget: '2000000' }],
  ],
  funded: [['provider', 'submit_work', { content: 'x' }]],
  submitted: [
    ['judge', 'evaluate_work', evaluate('approve')],
    ['client', 'evaluate_work', evaluate('approve')],
  ],
  decided: [['client', 'evaluate_work', evaluate('approve')]],
  disputed: [
    ['client', 'evaluate_work', evaluate('approve')],
    ['arbiter', 'dispute_work', { reason: 'x', resolution: 'release' }],
    ['arbiter', 'dispute_work', { reason: 'x', resolution: 'split' }],
  ],
};
const payingActions = ['fund', 'counter', 'submit', 'approve'];

for (const stage of stages) {
  test(`a frozen wallet while a job is ${stage}`, async (t) => {
    const world = await createWorld(t);
    const cast: Cast = {
      client: await world.agent('client', '10.00'),
      provider: await world.agent('provider', '5.00'),
      judge: await world.agent('judge', '5.00'),
      arbiter: await world.agent('arbiter', '5.00'),
    };
    const freeze = async (frozen: boolean) => {
      for (const { wallet } of Object.values(cast) as Agent[]) {
        await world.call(world.admin, 'update_wallet', { wallet, frozen });
      }
    };
    for (const [role, name, input, expected] of possible[stage]) {
      const id = await jobIn(world, cast, stage);
      await freeze(true);
      const after = await world.call(cast[role], name, { id, ...input });
      assert.equal(after.stage, expected, `${role}: ${name}`);
      await freeze(false);
    }
    const left = await jobIn(world, cast, stage);
    await freeze(true);
    for (const who of Object.values(cast) as Agent[]) {
      const to = who === cast.client ? cast.provider : cast.client;
      const pay = world.call(who, 'send_payment', { to: to.wallet, amount: '0.01' });
      assert.equal(await refusal(pay), 'walletFrozen');
      const post = posted(world, who, to, { repeat: true, expiresAt: isoIn(world, hourMs) });
      assert.equal(await refusal(post), 'walletFrozen');
    }
    for (const [role, name, input] of stopped[stage]) {
      const act = world.call(cast[role], name, { id: left, ...input });
      assert.equal(await refusal(act), 'walletFrozen', `${role}: ${name}`);
      const { availableActions } = await world.call(cast[role], 'get_job', { id: left });
      const offered = payingActions.filter((action) => availableActions.includes(action));
      assert.deepEqual(offered, [], `${role} is offered no action that it cannot take`);
    }
    // Without any action everything ends automatically, frozen or not.
    for (let i = 0; i < 4; i++) {
      world.clock.jump(30 * hourMs);
      await world.services.sweeper.sweep();
    }
    const end = await world.call(world.admin, 'get_job', { id: left });
    const isPaid = ['submitted', 'decided', 'disputed'].includes(stage);
    assert.equal(end.stage, isPaid ? 'completed' : 'expired', 'a delivery is paid');
    const books = await world.call(world.admin, 'verify_escrow');
    assert.equal(books.escrowed, '0');
  });
}
