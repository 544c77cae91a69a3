// A party pays only what it agreed to: after any proposal, funding moves the client's latest own amount or fails.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import * as fc from 'fast-check';
import { AppError } from '../../../src/errors.ts';
import { escrowMigrations } from '../../../src/kinds/escrow/migrations.ts';
import { specHash } from '../../../src/kinds/escrow/terms.ts';
import type { Store } from '../../../src/store/store.ts';
import { stores } from '../../helpers/stores.ts';
import { until } from '../../helpers/until.ts';
import {
  createWorld,
  posted,
  refusal,
  type Agent,
  type Answer,
  type World,
  specOf,
} from './world.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';

for (const factory of stores) {
  test(`${factory.name}: a raise by the provider is never paid without the client naming it`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '500.00');
    const provider = await world.agent('provider');
    const post = { budget: '2000000', idempotencyKey: 'once' };
    const job = await posted(world, client, provider, post);
    await world.call(provider, 'counter_work', { id: job.id, budget: '300000000' });

    const blind = world.call(client, 'fund_work', { id: job.id });
    assert.equal(await refusal(blind), 'budgetChanged');
    const repeated = posted(world, client, provider, { ...post, fund: true });
    assert.equal(await refusal(repeated), 'budgetChanged');
    const old = world.call(client, 'fund_work', { id: job.id, expectedBudget: '2000000' });
    assert.equal(await refusal(old), 'budgetChanged');
    assert.equal(await world.balance(client), 500_000_000);

    const seen = await world.call(undefined, 'get_job', { id: job.id });
    assert.equal(seen.budget, '2000000');
    assert.deepEqual(seen.proposed, {
      by: provider.wallet,
      budget: '300000000',
      amount: '300.00',
    });
    assert.equal(await specAmount(world, job.id), '2000000');

    const accepted = { id: job.id, expectedBudget: '300000000' };
    assert.equal((await world.call(client, 'fund_work', accepted)).held, '300000000');
    assert.equal(await world.balance(client), 200_000_000);
    const funded = await world.call(undefined, 'get_job', { id: job.id });
    assert.deepEqual([funded.budget, funded.proposed], ['300000000', undefined]);
    assert.match(funded.summary, /budget 300\.00/);
  });

  test(`${factory.name}: funding a funded job with another amount is an error and pays nothing`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '50.00');
    const provider = await world.agent('provider');
    const { id } = await posted(world, client, provider, { budget: '2000000' });
    const fund = (expectedBudget?: string) =>
      world.call(client, 'fund_work', { id, ...(expectedBudget && { expectedBudget }) });
    await fund('2000000');
    const isConflict = {
      code: 'budgetChanged',
      message: `${id} was funded with 2.00, but this call expected 3.00. Nothing was paid by this call.`,
    };
    await assert.rejects(fund('3000000'), isConflict);
    for (const same of ['2000000', undefined])
      assert.equal((await fund(same)).existing, true, 'the same amount is a repeated call');
    assert.equal(await world.balance(client), 48_000_000);
    await world.call(provider, 'submit_work', { id, content: 'done' });
    await world.call(client, 'evaluate_work', { id, verdict: 'approve', reason: 'ok' });
    const balance = await world.balance(client);
    await assert.rejects(fund('3000000'), isConflict, 'even after the job has ended');
    assert.equal((await fund('2000000')).existing, true);
    assert.equal(await world.balance(client), balance);

    // Of concurrent calls that name different amounts, only the ones with the proposed amount succeed.
    const raced = await posted(world, client, provider, { budget: '4000000' });
    const amounts = ['4000000', '5000000', '4000000', '5000000'];
    const outcomes = await Promise.all(
      amounts.map((expectedBudget) =>
        refusal(world.call(client, 'fund_work', { id: raced.id, expectedBudget })),
      ),
    );
    const [paid, other] = ['nothing was refused', 'budgetChanged'];
    assert.deepEqual(outcomes, [paid, other, paid, other]);
    assert.equal(await world.balance(client), balance - 4_000_000);
  });

  test(`${factory.name}: the public spec states the amount agreed by the client`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '50.00');
    const provider = await world.agent('provider');
    const job = await posted(world, client, provider);
    const first = await world.call(undefined, 'read_work', { id: job.id });
    await world.call(client, 'counter_work', { id: job.id, budget: '1500000' });
    assert.equal(await specAmount(world, job.id), '1500000');
    const lower = { id: job.id, budget: '1200000' };
    await world.call(provider, 'counter_work', lower);
    const unnamed = world.call(client, 'fund_work', { id: job.id });
    assert.equal(await refusal(unnamed), 'budgetChanged', 'a lower amount must be named as well');
    await world.call(client, 'fund_work', { id: job.id, expectedBudget: '1200000' });
    const last = await world.call(undefined, 'read_work', { id: job.id });
    const bytes = await specOf(world, job.id);
    const spec = JSON.parse(bytes);
    assert.deepEqual([spec.budget.amount, spec.budget.postedAmount], ['1200000', '1000000']);
    assert.equal(spec.revises, first.specHash, 'the spec names the hash of the posted one');
    assert.equal(last.specHash, specHash(bytes));
    assert.equal((await world.call(undefined, 'get_job', { id: job.id })).specHash, last.specHash);

    // A webhook reports the agreed amount too, not a raise that nobody accepted.
    const hook = { wallet: client.wallet, url: 'https://x.test/' };
    await world.call(client, 'set_wallet_webhook', hook);
    await world.webhooks.start();
    t.after(() => world.webhooks.stop());
    const raised = await posted(world, client, provider, { repeat: true });
    await world.call(provider, 'counter_work', { id: raised.id, budget: '30000000' });
    await world.call(provider, 'decline_work', { id: raised.id });
    const bodies = () => world.sent.map(({ body }) => JSON.parse(body));
    await until('both messages are sent', async () => {
      await world.clock.advance(1000);
      return world.sent.length === 2;
    });
    for (const { budgetUsdc } of bodies()) assert.equal(budgetUsdc, '1000000');
  });

  test(`${factory.name}: wallet and job limits apply to counter-offers`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '50.00');
    const provider = await world.agent('provider');
    const limits = { perTransaction: '5.00', perDay: '8.00' };
    await world.call(world.admin, 'update_wallet', { wallet: client.wallet, limits });
    const job = await posted(world, client, provider, { maxBudget: '20000000' });
    const offer = (who: Agent, budget: string) =>
      refusal(world.call(who, 'counter_work', { id: job.id, budget }));
    assert.equal(await offer(client, '5000001'), 'txLimitExceeded');
    assert.equal(await offer(provider, '20000001'), 'maxBudgetExceeded');
    assert.equal(await offer(provider, '6000000'), 'nothing was refused');
    const fund = (expectedBudget: string) =>
      refusal(world.call(client, 'fund_work', { id: job.id, expectedBudget }));
    assert.equal(await fund('6000000'), 'txLimitExceeded');
    const lifted = { perTransaction: null };
    await world.call(world.admin, 'update_wallet', { wallet: client.wallet, limits: lifted });
    assert.equal(await offer(client, '8000001'), 'dailyLimitExceeded');
    assert.equal(await fund('6000000'), 'nothing was refused');
    assert.equal(await world.balance(client), 44_000_000);
    const odd = posted(world, client, provider, { budget: '9', maxBudget: '8' });
    assert.equal(await refusal(odd), 'invalidAmount');
  });

  test(`${factory.name}: random negotiations fund exactly the agreed amount, or fail`, async (t) => {
    const histories = factory === stores[0] ? 25 : 5;
    const store = await factory.open(t, escrowMigrations);
    let funded = 0;
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { minLength: 10, maxLength: 30 }), async (turns) => {
        const counts = await negotiate(t, store, turns);
        funded += counts.funded;
        refused += counts.refused;
      }),
      { numRuns: deep ? histories * 25 : histories, seed: 20_261_118, endOnFailure: true },
    );
    t.diagnostic(`${funded} funded, ${refused} refused because another amount was proposed`);
    assert.ok(funded > 0 && refused > 0, `${funded} funded, ${refused} refused`);
  });
}

async function specAmount(world: World, id: string): Promise<string> {
  const spec = await specOf(world, id);
  return JSON.parse(spec).budget.amount;
}

type Turn =
  | { do: 'post'; amount: number; fund: boolean }
  | { do: 'repost'; job: number }
  | { do: 'counter'; job: number; byClient: boolean; amount: number }
  | { do: 'fund'; job: number; expected: number | undefined }
  | { do: 'finish'; job: number }
  | { do: 'fees'; platform: number; evaluator: number };

const job = fc.nat(4);
/** Few values, so that proposals and expectations often coincide. */
const amount = fc.integer({ min: 1, max: 4 }).map((n) => n * 1_000_003);
const turn: fc.Arbitrary<Turn> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('post' as const), amount, fund: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('repost' as const), job }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('counter' as const),
      job,
      byClient: fc.boolean(),
      amount,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('fund' as const),
      job,
      expected: fc.option(amount, { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('finish' as const), job }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('fees' as const),
      platform: fc.integer({ min: 0, max: 500 }),
      evaluator: fc.integer({ min: 0, max: 500 }),
    }),
  },
);

/** The test's own record of a job: only what the parties sent, in order. */
interface Deal {
  id: string;
  /** The client's latest explicit amount. */
  agreed: number;
  /** The latest proposal by either side. */
  table: number;
  posted: Record<string, unknown>;
  fees: { platformFeeBps: number; evaluatorFeeBps: number };
  state: 'open' | 'funded' | 'over';
}

async function negotiate(t: TestContext, store: Store, turns: Turn[]) {
  let fees = { platformFeeBps: 200, evaluatorFeeBps: 500 };
  let world = await createWorld(t, { store });
  const client = await world.agent('client', '1000');
  const provider = await world.agent('provider');
  const judge = await world.agent('judge');
  const deals: Deal[] = [];
  const counts = { funded: 0, refused: 0 };
  const funding = async (deal: Deal, named: number, call: () => Promise<Answer>) => {
    const before = await world.balance(client);
    const wasOpen = deal.state === 'open';
    const code = await codeOf(call);
    const paid = before - (await world.balance(client));
    if (!wasOpen) return assert.equal(paid, 0, 'a repeated call pays nothing');
    if (named !== deal.table) {
      counts.refused += 1;
      assert.deepEqual([code, paid], ['budgetChanged', 0]);
      return;
    }
    counts.funded += 1;
    assert.deepEqual([code, paid], [undefined, named]);
    deal.agreed = named;
    deal.state = 'funded';
    const seen = await world.call(undefined, 'get_job', { id: deal.id });
    assert.deepEqual([seen.held, seen.budget], [String(named), String(named)]);
    assert.equal(await specAmount(world, deal.id), String(named));
  };
  const posts: Turn[] = [{ do: 'post', amount: 1_000_003, fund: false }];
  for (const [n, one] of [...posts, ...turns].entries()) {
    const deal = deals['job' in one ? one.job % Math.max(deals.length, 1) : 0];
    if (one.do === 'fees') {
      // The operator changes the fees: jobs posted before keep theirs.
      fees = { platformFeeBps: one.platform, evaluatorFeeBps: one.evaluator };
      world = await createWorld(t, { store, settings: fees, clock: world.clock });
    } else if (one.do === 'post') {
      const input = {
        budget: String(one.amount),
        idempotencyKey: `job ${n}`,
        rule: { type: 'manual', wallet: judge.wallet },
        title: `job ${n}`,
      };
      const { id } = await posted(world, client, provider, input);
      const made: Deal = {
        ...{ id, agreed: one.amount, table: one.amount },
        ...{ posted: input, fees, state: 'open' },
      };
      deals.push(made);
      const repeat = () => posted(world, client, provider, { ...input, fund: true });
      if (one.fund) await funding(made, one.amount, repeat);
    } else if (!deal) continue;
    else if (one.do === 'repost') {
      const repeat = () => posted(world, client, provider, { ...deal.posted, fund: true });
      await funding(deal, Number(deal.posted.budget), repeat);
    } else if (one.do === 'counter') {
      const who = one.byClient ? client : provider;
      const offer = { id: deal.id, budget: String(one.amount) };
      const code = await codeOf(() => world.call(who, 'counter_work', offer));
      assert.equal(code === undefined, deal.state === 'open');
      if (code !== undefined) continue;
      deal.table = one.amount;
      if (one.byClient) deal.agreed = one.amount;
    } else if (one.do === 'fund') {
      const expected = one.expected === undefined ? {} : { expectedBudget: String(one.expected) };
      const fund = () => world.call(client, 'fund_work', { id: deal.id, ...expected });
      await funding(deal, one.expected ?? deal.agreed, fund);
    } else if (deal.state === 'funded') await finish(deal);
  }
  const books = await world.call(world.admin, 'verify_escrow');
  assert.deepEqual(books.problems, []);
  return counts;

  async function finish(deal: Deal): Promise<void> {
    const before = [await world.balance(provider), await world.balance(judge)];
    await world.call(provider, 'submit_work', { id: deal.id, content: deal.id });
    const verdict = { id: deal.id, verdict: 'approve', reason: 'good' };
    await world.call(judge, 'evaluate_work', verdict);
    deal.state = 'over';
    const fee = (bps: number) => Math.floor((deal.agreed * bps) / 10_000);
    const [platform, evaluator] = [fee(deal.fees.platformFeeBps), fee(deal.fees.evaluatorFeeBps)];
    assert.deepEqual(
      [await world.balance(provider), await world.balance(judge)],
      [before[0]! + deal.agreed - platform - evaluator, before[1]! + evaluator],
      'divided according to the fees in the spec',
    );
  }
}

async function codeOf(call: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
}
