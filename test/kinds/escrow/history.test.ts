// Random histories by many parties, with crashes and replays: the books always balance, nobody is below zero, each job
// settles once, and an independent model agrees on every balance.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import * as fc from 'fast-check';
import { verifyBooks } from '../../../src/kinds/escrow/verify.ts';
import { AppError } from '../../../src/errors.ts';
import type { Commit, Step, Store } from '../../../src/store/store.ts';
import { stores } from '../../helpers/stores.ts';
import { escrowMigrations } from '../../../src/kinds/escrow/migrations.ts';
import { createWorld, hourMs, isoIn, type Agent, type Answer, type World } from './world.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const agentsCount = 4;
const startMicro = 5_000_000;

type Command =
  | {
      do: 'post';
      client: number;
      provider: number;
      judge: number;
      budget: number;
      silence: number;
      arbiter: boolean;
      deps: boolean;
    }
  | { do: 'act'; name: number; who: number; job: number; twice: boolean }
  | { do: 'pay'; from: number; to: number; amount: number; twice: boolean }
  | { do: 'wait'; hours: number }
  | { do: 'crash'; after: number };

const who = fc.nat(agentsCount - 1);
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      client: who,
      provider: who,
      judge: who,
      budget: fc.integer({ min: 1, max: 2_000_003 }),
      silence: fc.nat(2),
      arbiter: fc.boolean(),
      deps: fc.boolean(),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant('act' as const),
      name: fc.nat(8),
      who,
      job: fc.nat(30),
      twice: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('pay' as const),
      from: who,
      to: who,
      amount: fc.integer({ min: 1, max: 300 }),
      twice: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), hours: fc.nat(30) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('crash' as const), after: fc.nat(2) }) },
);

/** A store whose process dies: the next commit is applied without a response, or is not applied. */
function crashingStore(store: Store): {
  store: Store;
  crashAfter(commits: number, applied: boolean): void;
} {
  let left = Number.POSITIVE_INFINITY;
  let lands = false;
  const commit = async (steps: readonly Step[]): Promise<Commit> => {
    left -= 1;
    if (left >= 0) return store.commit(steps);
    left = Number.POSITIVE_INFINITY;
    if (lands) await store.commit(steps);
    throw new Error('killed');
  };
  const proxy = new Proxy(store, {
    get: (target, name) => {
      if (name === 'commit') return commit;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  return {
    store: proxy,
    crashAfter: (commits, applied) => {
      left = commits;
      lands = applied;
    },
  };
}

const calls: [name: string, input: (id: string, n: number) => Record<string, unknown>][] = [
  ['fund_work', (id) => ({ id })],
  ['fund_work', (id) => ({ id })],
  ['submit_work', (id, n) => ({ id, content: `delivery ${n}` })],
  ['submit_work', (id, n) => ({ id, content: `delivery ${n}` })],
  ['evaluate_work', (id) => ({ id, verdict: 'approve', reason: 'fine' })],
  ['evaluate_work', (id) => ({ id, verdict: 'reject', reason: 'poor' })],
  ['decline_work', (id) => ({ id })],
  ['refund_work', (id) => ({ id })],
  ['dispute_work', (id) => ({ id, reason: 'unfair' })],
];

async function play(t: TestContext, open: () => Promise<Store>, commands: Command[]) {
  const { store, crashAfter } = crashingStore(await open());
  const world: World = await createWorld(t, { store });
  const agents: Agent[] = [];
  for (let i = 0; i < agentsCount; i++) {
    agents.push(await world.agent(`agent-${i}`, String(startMicro / 1_000_000)));
  }
  const jobs: string[] = [];
  let n = 0;
  let crashes = 0;
  /** Refusals are expected and a crash is survived; anything else is a bug. */
  const tried = async (run: () => Promise<Answer>): Promise<Answer> => {
    try {
      return await run();
    } catch (error) {
      if (error instanceof AppError && error.code !== 'escrowMismatch') return undefined;
      if ((error as Error).message !== 'killed') throw error;
      crashes += 1;
      return undefined;
    }
  };
  for (const one of commands) {
    n += 1;
    if (one.do === 'crash') crashAfter(one.after, n % 2 === 0);
    else if (one.do === 'wait') {
      world.clock.jump(one.hours * hourMs);
      await world.services.sweeper.sweep().catch(() => undefined);
    } else if (one.do === 'pay') {
      const input = {
        to: agents[one.to]!.wallet,
        amount: `0.${String(one.amount).padStart(6, '0')}`,
        idempotencyKey: `pay-${n}`,
      };
      const pay = () => world.call(agents[one.from], 'send_payment', input);
      await tried(pay);
      if (one.twice) await tried(pay);
    } else if (one.do === 'post') {
      const made = await tried(() =>
        world.call(agents[one.client], 'post_work', postOf(world, agents, one, n)),
      );
      if (made) jobs.push(made.id);
    } else if (jobs.length > 0) {
      const id = jobs[one.job % jobs.length]!;
      const [name, input] = calls[one.name]!;
      const act = () => world.call(agents[one.who], name, input(id, n));
      await tried(act);
      if (one.twice) await tried(act);
    }
  }
  crashAfter(Number.POSITIVE_INFINITY, false);
  await check(world, agents, jobs);
  return crashes;
}

function postOf(world: World, agents: Agent[], one: Extract<Command, { do: 'post' }>, n: number) {
  const half = Math.floor(one.budget / 2);
  const arbiter = agents[(one.judge + 1) % agentsCount]!.wallet;
  return {
    provider: agents[one.provider]!.wallet,
    budget: String(one.budget),
    title: `job ${n}`,
    description: 'random',
    rule: { type: 'manual', wallet: agents[one.judge]!.wallet },
    expiresAt: isoIn(world, 20 * hourMs),
    silence: ['refund', 'release', 'split'][one.silence],
    repeat: true,
    ...(one.arbiter ? { dispute: { arbiter, windowMs: 2 * hourMs, resolveMs: 5 * hourMs } } : {}),
    ...(one.deps && half > 0
      ? {
          milestones: [
            { title: 'a', amount: String(half) },
            { title: 'b', amount: String(one.budget - half) },
          ],
        }
      : {}),
  };
}

async function check(world: World, agents: Agent[], jobs: string[]): Promise<void> {
  const during = await verifyBooks(world.store);
  assert.deepEqual(during.problems, []);
  assert.equal(during.supply, String(agentsCount * startMicro), 'money is conserved');
  for (const agent of agents) assert.ok((await world.balance(agent)) >= 0);
  // Without any action, every job ends automatically and releases what it held.
  for (let i = 0; i < 6; i++) {
    world.clock.jump(40 * hourMs);
    await world.services.sweeper.sweep();
  }
  const ends = ['completed', 'rejected', 'expired'];
  for (const id of jobs) {
    const job = await world.call(world.admin, 'get_job', { id });
    assert.ok(ends.includes(job.stage), `${id} is ${job.stage}`);
    const kinds = job.transactions.map((tx: { kind: string }) => tx.kind);
    const settles = kinds.filter((kind: string) =>
      ['complete', 'reject', 'refund', 'split'].includes(kind),
    );
    assert.equal(settles.length, 1, `${id} settled once: ${kinds.join(' ')}`);
  }
  const after = await verifyBooks(world.store);
  assert.deepEqual(after.problems, []);
  assert.equal(after.escrowed, '0');
}

for (const factory of stores) {
  test(`${factory.name}: random histories with crashes and replays keep the books balanced`, async (t) => {
    let crashes = 0;
    let played = 0;
    // A new database per history is slow on a server: few histories there, many on the embedded store.
    const many = factory === stores[0] ? 40 : 3;
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 10, maxLength: 60 }), async (commands) => {
        played += 1;
        crashes += await play(t, () => factory.open(t, escrowMigrations), commands);
      }),
      {
        numRuns: deep ? many * 25 : many,
        seed: deep ? Date.now() : 20_260_116,
        endOnFailure: true,
      },
    );
    t.diagnostic(`${played} histories, ${crashes} crashes`);
    assert.ok(crashes > 0);
  });
}
