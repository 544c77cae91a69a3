// Chain-specific faults: an attack that empties the reference contract, a reorganisation, a server killed between send and
// confirmation, a node that does not respond, direct calls to the contract.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { artifactText, compile, contractTargets } from '../../../../../scripts/contracts.ts';
import type { Hex } from 'viem';
import { AppError } from '../../../../../src/errors.ts';
import { keccak256 } from '../../../../../src/runtime/keccak.ts';
import { hourMs, isoIn, posted, refusal, type Agent } from '../../world.ts';
import { contracts, operatorAddress, type Artifact } from './anvil.ts';
import { createChainWorld, deployAll, type Chained, type ChainWorld } from './chain-world.ts';

const root = join(import.meta.dirname, '../../../../..');
const nobody = '0x0000000000000000000000000000000000000000';
const attacker = '0x00000000000000000000000000000000000a77ac';
const victim = '0x0000000000000000000000000000000000051c71';
const worker = '0x0000000000000000000000000000000000030c8e';

test('the checked-in artifacts match the compiled sources', () => {
  // The other two are only for tests; the deep run compiles them as well.
  const checked =
    process.env.ERRAND_TEST_DEEP === '1' ? contractTargets : contractTargets.slice(0, 1);
  for (const { source, output } of checked) {
    assert.equal(readFileSync(join(root, output), 'utf8'), artifactText(compile(source)), output);
  }
});

/** Never funds its own job, waits for the expiry and claims a refund from another client's money. */
async function attack(chained: Chained, escrow: Hex, artifact: Artifact): Promise<boolean> {
  const { anvil, tokenAddress } = chained;
  const five = 5_000_000n;
  const { timestamp } = await anvil.rpc<{ timestamp: string }>('eth_getBlockByNumber', [
    'latest',
    false,
  ]);
  const later = BigInt(timestamp) + 600n;
  const call = (from: string, name: string, args: unknown[]) =>
    anvil.send(from, escrow, artifact, name, args);
  const create = [worker, operatorAddress, later, 'job', nobody, 0n];
  const honest = BigInt(await jobs(chained, escrow)) + 1n;
  assert.ok(await anvil.send(victim, tokenAddress, contracts.token, 'mint', [victim, five]));
  assert.ok(await anvil.send(victim, tokenAddress, contracts.token, 'approve', [escrow, five]));
  assert.ok(await call(victim, 'createJob', create));
  assert.ok(await call(victim, 'setBudget', [honest, tokenAddress, five, '0x']));
  assert.ok(await call(victim, 'fund', [honest, five, '0x']));
  assert.ok(await call(attacker, 'createJob', create));
  assert.ok(await call(attacker, 'setBudget', [honest + 1n, tokenAddress, five, '0x']));
  await anvil.forward(601);
  return call(attacker, 'claimRefund', [honest + 1n]);
}

async function jobs({ anvil }: Chained, escrow: Hex): Promise<string> {
  // jobCounter() is the same in both contracts.
  return anvil.rpc<string>('eth_call', [
    { to: escrow, data: keccak256('jobCounter()').slice(0, 10) },
    'latest',
  ]);
}

test('the attack that empties the reference contract fails against this one', async (t) => {
  const chained = await deployAll(t);
  const tokens = async (owner: string) =>
    Number(
      await chained.anvil.rpc<string>('eth_call', [
        {
          to: chained.tokenAddress,
          data: `${keccak256('balanceOf(address)').slice(0, 10)}${owner.slice(2).padStart(64, '0')}`,
        },
        'latest',
      ]),
    );
  const faulty = await chained.anvil.deploy(contracts.faulty);
  assert.ok(await attack(chained, faulty, contracts.faulty));
  assert.equal(
    await tokens(attacker),
    5_000_000,
    'the reference pays the attacker with the victim’s money',
  );
  assert.equal(await tokens(faulty), 0);
  await attack(chained, chained.escrowAddress, contracts.escrow);
  assert.equal(await tokens(attacker), 5_000_000, 'nothing more');
  assert.equal(await tokens(chained.escrowAddress), 5_000_000, 'the victim’s escrow is complete');
});

async function hired(world: ChainWorld): Promise<{ client: Agent; provider: Agent; id: string }> {
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const job = await posted(world, client, provider);
  await world.settled(job.id);
  return { client, provider, id: job.id };
}

test('the contract fixes fees, deadlines and refunds at creation', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider, id } = await hired(world);
  const admin = (name: string, args: unknown[]) =>
    world.anvil.send(operatorAddress, world.escrowAddress, contracts.escrow, name, args);
  assert.ok(await admin('setPlatformFee', [500, operatorAddress]), 'fees of later jobs');
  assert.equal(await admin('setPlatformFee', [501, operatorAddress]), false, 'never above 10 %');
  assert.equal(await admin('setEvaluatorFee', [501]), false, 'never above 10 %');
  await world.call(client, 'fund_work', { id });
  await world.settled(id);
  assert.ok(await admin('setPaused', [true]));
  await world.call(provider, 'submit_work', { id, content: 'done' });
  const stopped = await world.settled(id);
  assert.equal(stopped.stage, 'funded', 'a paused contract accepts no delivery');
  const [event] = await world.store.read<{ data: string }>(
    `SELECT data FROM events WHERE job_id = ? AND type = 'settlementFailed'`,
    [id],
  );
  assert.match(event!.data, /escrowPaused/);
  await world.call(provider, 'decline_work', { id });
  assert.equal((await world.settled(id)).stage, 'rejected', 'a pause never stops a refund');
  assert.equal(await world.tokens(client), 10_000_000);
});

test('a chain reorganisation is undone, and the same transactions are sent again', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider, id } = await hired(world);
  await world.call(client, 'fund_work', { id });
  await world.settled(id);
  await world.call(provider, 'submit_work', { id, content: 'done' });
  await world.settled(id);
  await world.call(client, 'evaluate_work', { id, verdict: 'approve', reason: 'good' });
  assert.equal((await world.settled(id)).stage, 'completed');
  assert.equal(await world.tokens(provider), 930_000);
  const hashes = () => world.store.read(`SELECT hash FROM escrow_txs ORDER BY hash`);
  const before = await hashes();

  await world.anvil.rpc('anvil_rollback', [3]);
  await world.anvil.rpc('evm_mine');
  await world.turn();
  const rewound = await world.store.read(`SELECT 1 FROM events WHERE type = 'rewound'`);
  assert.ok(rewound.length > 0, 'the job moved back');
  for (let i = 0; i < 20; i++) await world.turn();
  const job = await world.settled(id);
  assert.equal(job.stage, 'completed');
  assert.equal(await world.tokens(provider), 930_000, 'paid once');
  assert.equal(await world.tokens(world.escrowAddress), 20_000, 'the platform fee');
  assert.deepEqual(await hashes(), before, 'no second transaction was created');
});

test('a reorganisation also undoes the agreed amount in the spec and in the summary', async (t) => {
  const world = await createChainWorld(t);
  const { client, id } = await hired(world);
  const { number: ready } = (await world.evm.chain.block('latest'))!;
  const shown = async () => {
    const [row] = await world.store.read('SELECT facts FROM jobs WHERE id = ?', [id]);
    const { budget } = await world.call(client, 'get_job', { id });
    return [budget, (JSON.parse(String(row!.facts ?? '{}')) as { budget?: string }).budget];
  };
  const [posted] = await shown();
  await world.call(client, 'counter_work', { id, budget: '3000000' });
  await world.settled(id);
  assert.deepEqual(await shown(), ['3000000', '3000000']);
  const { number: now } = (await world.evm.chain.block('latest'))!;
  await world.anvil.rpc('anvil_rollback', [now - ready]);
  await world.anvil.rpc('evm_mine');
  await world.turn();
  assert.deepEqual(await shown(), [posted, posted]);
});

for (const at of ['before send', 'after send'] as const) {
  test(`killed ${at} at every transaction of a hire: the same bytes are sent again and take effect once`, async (t) => {
    let world = await createChainWorld(t);
    let deaths = 0;
    /** A server that dies at every transaction it sends for the first time. */
    const perilous = (one: ChainWorld, seen: Set<string>): ChainWorld => {
      const send = one.evm.chain.send.bind(one.evm.chain);
      one.evm.chain.send = async (raw) => {
        const isNew = !seen.has(raw);
        seen.add(raw);
        if (!isNew || at === 'after send') await send(raw);
        if (isNew) throw new Error('killed');
      };
      return one;
    };
    const seen = new Set<string>();
    world = perilous(world, seen);
    const settled = async (id: string, stage: string) => {
      for (let turns = 0; turns < 100; turns++) {
        try {
          await world.turn();
        } catch (error) {
          assert.match((error as Error).message, /killed/);
          deaths += 1;
          const { store, clock } = world;
          world = perilous(await createChainWorld(t, { chained: world, store, clock }), seen);
        }
        const job = await world.call(world.admin, 'get_job', { id });
        if (job.stage === stage && job.settling === undefined) return job;
      }
      throw new Error(`${id} never became ${stage}`);
    };
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const hire = async () => {
      const { id } = await posted(world, client, provider, { repeat: true });
      await settled(id, 'open');
      await world.call(client, 'fund_work', { id });
      await settled(id, 'funded');
      return id;
    };
    const good = await hire();
    assert.equal(await world.tokens(world.escrowAddress), 1_000_000, 'funded once');
    await world.call(provider, 'submit_work', { id: good, content: 'done' });
    await settled(good, 'submitted');
    await world.call(client, 'evaluate_work', { id: good, verdict: 'approve', reason: 'good' });
    await settled(good, 'completed');
    const declined = await hire();
    await world.call(provider, 'decline_work', { id: declined });
    await settled(declined, 'rejected');
    const late = await hire();
    await world.pass(25 * hourMs);
    await world.services.sweeper.sweep();
    await settled(late, 'expired');
    assert.deepEqual(
      [
        await world.tokens(client),
        await world.tokens(provider),
        await world.tokens(world.escrowAddress),
      ],
      [9_050_000, 930_000, 20_000],
      'the client is its own evaluator here; the owner can withdraw the platform fee',
    );
    assert.ok(deaths >= 15, `${deaths} deaths`);
  });
}

test('a job posted with fund: true is funded once the chain knows it, or reports why not', async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client', '1.00');
  const provider = await world.agent('provider');
  const request = { fund: true, idempotencyKey: 'one' };
  const posting = await posted(world, client, provider, request);
  assert.deepEqual([posting.stage, posting.settling], ['open', 'create']);
  assert.equal((await posted(world, client, provider, request)).id, posting.id, 'a repeated call');
  const swept = async (id: string) => {
    await world.settled(id);
    await world.services.sweeper.sweep();
    return world.settled(id);
  };
  const funded = await swept(posting.id);
  assert.deepEqual([funded.stage, funded.held], ['funded', '1000000']);
  assert.equal(await world.tokens(client), 0);
  const poor = await posted(world, client, provider, { fund: true, repeat: true });
  const left = await swept(poor.id);
  assert.equal(left.stage, 'open');
  const [event] = await world.store.read<{ data: string }>(
    `SELECT data FROM events WHERE job_id = ? AND type = 'settlementFailed'`,
    [poor.id],
  );
  assert.match(event!.data, /insufficientBalance/);
  await world.pass(25 * hourMs);
  assert.equal((await swept(poor.id)).stage, 'expired', 'its deadline still ends it');
});

test('a refund that the chain does not accept yet is requested once, not every second', async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client', '2.00');
  const provider = await world.agent('provider');
  const overdue = async () => {
    const request = { expiresAt: isoIn(world, hourMs), repeat: true };
    const { id } = await posted(world, client, provider, request);
    await world.settled(id);
    await world.call(client, 'fund_work', { id });
    await world.settled(id);
    world.clock.jump(hourMs + 1000);
    return id as string;
  };
  const refundRequests = async (id: string) => {
    for (let turns = 0; turns < 4; turns++) {
      await world.services.sweeper.sweep();
      await world.turn();
    }
    const sql = `SELECT 1 FROM escrow_intents WHERE job_id = ? AND action = 'conclude'`;
    return (await world.store.read(sql, [id])).length;
  };
  const early = await overdue();
  assert.equal(await refundRequests(early), 1, 'the chain clock is behind');
  await world.anvil.forward(hourMs / 1000 + 1);
  assert.equal((await world.settled(early)).stage, 'expired');

  const refused = await overdue();
  await world.anvil.forward(hourMs / 1000 + 1);
  const { chain } = world.evm;
  const sign = chain.sign.bind(chain);
  chain.sign = () => Promise.reject(new AppError('settlementFailed', 'The token is stopped.'));
  assert.equal(await refundRequests(refused), 1, 'the token pays nobody now');
  chain.sign = sign;
  await world.pass(hourMs);
  assert.equal(await refundRequests(refused), 2);
  assert.equal((await world.settled(refused)).stage, 'expired');
  assert.equal(await world.tokens(client), 2_000_000);
});

test('a node that does not respond delays jobs but loses nothing', async (t) => {
  const world = await createChainWorld(t);
  const { client, id } = await hired(world);
  await world.call(client, 'fund_work', { id });
  await world.anvil.stop();
  assert.equal(await refusal(world.turn()), 'unavailable');
  const health = await world.call(world.admin, 'get_escrow_health');
  assert.equal(health.ok, false);
  assert.match(health.settlements.evm, /did not respond/);
  assert.equal((await world.call(world.admin, 'get_job', { id })).settling, 'fund');
  await world.anvil.start();
  assert.equal((await world.settled(id)).stage, 'funded');
  assert.equal(await world.tokens(client), 9_000_000);
});

test('direct calls to the contract without this server move the job', async (t) => {
  const world = await createChainWorld(t, { confirmations: 2 });
  const { anvil, escrowAddress } = world;
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const expiresAt = isoIn(world, hourMs);
  const job = await posted(world, client, provider, { expiresAt });
  const mined = async () => {
    for (let i = 0; i < 6; i++) {
      await world.turn();
      await anvil.rpc('evm_mine');
    }
  };
  await mined();
  await mined();
  await world.call(client, 'fund_work', { id: job.id });
  await mined();
  await mined();
  const funded = await world.settled(job.id);
  assert.equal(funded.stage, 'funded');
  const hash = keccak256('delivered directly');
  const number = BigInt(funded.settlementId);
  const direct = (from: string, name: string, args: unknown[]) =>
    anvil.send(from, escrowAddress, contracts.escrow, name, args);
  assert.ok(await direct(provider.address, 'submit', [number, hash, '0x']));
  await world.turn();
  const unconfirmed = await world.call(world.admin, 'get_job', { id: job.id });
  assert.equal(unconfirmed.stage, 'funded', 'one block is not enough');
  await mined();
  const seen = await world.settled(job.id);
  assert.equal(seen.stage, 'submitted');
  assert.equal(seen.deliverable.hash, hash);
  assert.ok(await direct(client.address, 'complete', [number, hash, '0x']));
  await mined();
  const done = await world.settled(job.id);
  assert.equal(done.stage, 'completed');
  assert.equal(await world.tokens(provider), 930_000);
});
