// `verify` compares every chain job with the contract: stage, budget, escrow, parties and fees, and reports what was earned.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { AppError } from '../../../../../src/errors.ts';
import { escrowMigrations } from '../../../../../src/kinds/escrow/migrations.ts';
import { evmMigrations } from '../../../../../src/kinds/escrow/migrations.ts';
import { stores, type StoreFactory } from '../../../../helpers/stores.ts';
import { hourMs, isoIn, posted, refusal } from '../../world.ts';
import { contracts } from './anvil.ts';
import { createChainWorld } from './chain-world.ts';

for (const factory of stores) {
  test(`${factory.name}: verify reconciles chain jobs with the contract and shows the fees`, (t) =>
    reconciled(t, factory));
}

async function reconciled(t: TestContext, factory: StoreFactory): Promise<void> {
  const store = await factory.open(t, [...escrowMigrations, ...evmMigrations]);
  const world = await createChainWorld(t, { store });
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const judge = await world.agent('judge');
  const rule = { type: 'manual', wallet: judge.wallet };
  const hire = async () => {
    const { id } = await posted(world, client, provider, { rule, repeat: true });
    await world.settled(id);
    await world.call(client, 'fund_work', { id });
    return (await world.settled(id)).id as string;
  };
  const [paid, held] = [await hire(), await hire()];
  await world.call(provider, 'submit_work', { id: paid, content: 'done' });
  await world.settled(paid);
  await world.call(judge, 'evaluate_work', { id: paid, verdict: 'approve', reason: 'good' });
  await world.settled(paid);
  const { id: open } = await posted(world, client, provider, { rule, repeat: true });
  assert.equal((await world.call(world.admin, 'get_job', { id: open })).settling, 'create');
  const verify = () => world.call(world.admin, 'verify_escrow');
  const report = await verify();
  assert.deepEqual(report.problems, []);
  const { evm } = report.settlements;
  const { jobs, escrowed, fees, unclaimed } = evm;
  assert.deepEqual(
    { jobs, escrowed, fees, unclaimed },
    {
      jobs: 3,
      escrowed: '1000000',
      fees: { platform: '20000', evaluator: '50000' },
      unclaimed: '20000',
    },
  );
  assert.ok(evm.entries >= 8, `${evm.entries} changes confirmed`);
  assert.equal(await world.tokens(judge), 50_000, 'the evaluator has its fee');
  await world.settled(open);

  // The chain is ahead of the server: this is not a difference.
  const number = BigInt((await world.call(world.admin, 'get_job', { id: held })).settlementId);
  const decline = [number, `0x${'0'.repeat(64)}`, '0x'];
  const { anvil, escrowAddress } = world;
  const direct = anvil.send(provider.address, escrowAddress, contracts.escrow, 'reject', decline);
  assert.ok(await direct);
  assert.deepEqual((await verify()).problems, []);
  await world.turn();
  assert.deepEqual((await verify()).problems, []);

  const forged: [string, RegExp][] = [
    [
      `SET phase = 'completed' WHERE job_id = '${held}'`,
      /stage is Completed here and Rejected on the chain/,
    ],
    [`SET held = 7 WHERE job_id = '${open}'`, /escrow is 7 here and 0 on the chain/],
    [`SET budget = 7 WHERE job_id = '${open}'`, /budget is 7 here and 1000000 on the chain/],
    [`SET external = '99' WHERE job_id = '${paid}'`, /on the chain/],
  ];
  for (const [change, problem] of forged) {
    const rows = await world.store.read<Record<string, never>>(
      'SELECT job_id, phase, held, budget, external FROM escrow_work',
    );
    await world.store.commit([{ sql: `UPDATE escrow_work ${change}`, params: [] }]);
    await assert.rejects(verify(), (error) => {
      assert.ok(error instanceof AppError && error.code === 'escrowMismatch');
      assert.match(error.message, problem);
      return true;
    });
    await world.store.commit(
      rows.map(({ job_id: id, phase, held: has, budget, external }) => ({
        sql: `UPDATE escrow_work SET phase = ?, held = ?, budget = ?, external = ? WHERE job_id = ?`,
        params: [phase, has, budget, external, id] as never[],
      })),
    );
  }
  assert.deepEqual((await verify()).problems, []);
  await anvil.stop();
  assert.equal(
    await refusal(verify()),
    'unavailable',
    'an unreachable node must not pass verification',
  );
}

test("a contract pause also extends a delivery's deadline", async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const judge = await world.agent('judge');
  const request = { rule: { type: 'manual', wallet: judge.wallet }, silence: 'release' };
  const expiresAt = isoIn(world, hourMs);
  const { id } = await posted(world, client, provider, { ...request, expiresAt });
  await world.settled(id);
  await world.call(client, 'fund_work', { id });
  await world.settled(id);
  await world.call(provider, 'submit_work', { id, content: 'done' });
  await world.settled(id);
  const pause = async (paused: boolean) => {
    const { anvil, escrowAddress } = world;
    const owner = String(await world.evm.chain.read('owner'));
    const args = [paused];
    assert.ok(await anvil.send(owner, escrowAddress, contracts.escrow, 'setPaused', args));
  };
  const turns = async () => {
    for (let i = 0; i < 4; i++) {
      await world.services.sweeper.sweep();
      await world.turn();
    }
  };
  await pause(true);
  await world.pass(24 * hourMs);
  await turns();
  assert.equal((await world.call(world.admin, 'get_job', { id })).stage, 'submitted');
  await pause(false);
  await turns();
  const still = await world.settled(id);
  assert.equal(still.stage, 'submitted', 'the evaluator still has time');
  assert.ok(Date.parse(still.deadline) > world.clock.now(), still.deadline);
  await world.call(judge, 'evaluate_work', { id, verdict: 'approve', reason: 'good' });
  assert.equal((await world.settled(id)).stage, 'completed');
  assert.equal(await world.tokens(provider), 930_000);
});

test('silence after a delivery pays the provider on the chain, with or without this server', async (t) => {
  const world = await createChainWorld(t);
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const delivered = async () => {
    const request = { silence: 'release', repeat: true, expiresAt: isoIn(world, hourMs) };
    const { id } = await posted(world, client, provider, request);
    await world.settled(id);
    await world.call(client, 'fund_work', { id });
    await world.settled(id);
    await world.call(provider, 'submit_work', { id, content: `work for ${id}` });
    return (await world.settled(id)) as { id: string; settlementId: string };
  };
  const [swept, claimed] = [await delivered(), await delivered()];
  await world.pass(3 * hourMs);
  const { anvil, escrowAddress } = world;
  const args = [BigInt(claimed.settlementId)];
  const claim = anvil.send(provider.address, escrowAddress, contracts.escrow, 'claimRelease', args);
  assert.ok(await claim);
  await world.turn();
  await world.services.sweeper.sweep();
  for (const { id } of [swept, claimed]) {
    const job = await world.settled(id);
    assert.deepEqual([job.stage, job.result.outcome], ['completed', 'silence']);
    assert.ok(!job.evaluation?.outcome, 'nobody decided');
  }
  assert.equal(await world.tokens(provider), 2 * 930_000);
  assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
});
