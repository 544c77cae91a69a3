// A client never pays an amount or token that it did not agree to, even if the provider acts on the chain between the
// client's decision and the transaction.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { posted, refusal, type Agent, type Answer } from '../../world.ts';
import { contracts } from './anvil.ts';
import { createChainWorld, type ChainWorld } from './chain-world.ts';

const agreed = 1_000_000;
const raised = 9_000_000n;

async function parties(world: ChainWorld): Promise<{ client: Agent; provider: Agent }> {
  return { client: await world.agent('client', '10.00'), provider: await world.agent('provider') };
}

/** The provider calls the contract directly. */
async function raise(world: ChainWorld, provider: Agent, job: Answer): Promise<void> {
  const args = [BigInt(job.settlementId), world.tokenAddress, raised, '0x'];
  const { anvil, escrowAddress } = world;
  const sent = anvil.send(provider.address, escrowAddress, contracts.escrow, 'setBudget', args);
  assert.ok(await sent);
}

/** Runs enough turns for everything pending, including what the job does not show. */
async function turns(world: ChainWorld): Promise<void> {
  for (let i = 0; i < 10; i++) await world.turn();
}

async function failures(world: ChainWorld, id: string): Promise<string> {
  const rows = await world.store.read<{ data: string }>(
    `SELECT data FROM events WHERE job_id = ? AND type = 'settlementFailed'`,
    [id],
  );
  return rows.map(({ data }) => data).join();
}

test('a raise that reaches the chain after the client decided to fund is not paid', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const { id } = await posted(world, client, provider);
  const job = await world.settled(id);
  await world.call(client, 'fund_work', { id });
  await raise(world, provider, job);
  await turns(world);
  const after = await world.settled(id);
  assert.deepEqual([after.stage, await world.tokens(client)], ['open', 10_000_000]);
  assert.match(await failures(world, id), /budgetChanged/);
  // Only the client can agree to the new amount, by naming it.
  const old = world.call(client, 'fund_work', { id, expectedBudget: String(agreed) });
  assert.equal(await refusal(old), 'budgetChanged');
  await world.call(client, 'fund_work', { id, expectedBudget: String(raised) });
  const funded = await world.settled(id);
  assert.deepEqual([funded.stage, funded.held], ['funded', String(raised)]);
  assert.equal(await world.tokens(client), 1_000_000);
});

test('a raise between token approval and funding is not paid', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const { id } = await posted(world, client, provider);
  const job = await world.settled(id);
  await world.call(client, 'fund_work', { id });
  const steps = () =>
    world.store.read(`SELECT 1 AS one FROM escrow_txs t JOIN escrow_intents i ON i.id = t.intent_id
      WHERE i.action = 'fund'`);
  while ((await steps()).length === 0) await world.turn();
  await raise(world, provider, job);
  await turns(world);
  assert.equal((await world.settled(id)).stage, 'open');
  assert.equal(await world.tokens(client), 10_000_000);
});

test('a job funded on posting pays the posted amount or nothing', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const request = { fund: true, idempotencyKey: 'one' };
  const { id } = await posted(world, client, provider, request);
  const job = await world.settled(id);
  await raise(world, provider, job);
  await turns(world);
  for (let i = 0; i < 3; i++) {
    await world.services.sweeper.sweep();
    await world.settled(id);
    await posted(world, client, provider, request).catch(() => undefined);
  }
  assert.equal((await world.settled(id)).stage, 'open');
  assert.equal(await world.tokens(client), 10_000_000);
});

test('after a reorganisation the same funding fails if a raise comes first', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const { id } = await posted(world, client, provider);
  const job = await world.settled(id);
  const { number: ready } = (await world.evm.chain.block('latest'))!;
  await world.call(client, 'fund_work', { id });
  assert.equal((await world.settled(id)).stage, 'funded');
  const { number: now } = (await world.evm.chain.block('latest'))!;
  await world.anvil.rpc('anvil_rollback', [now - ready]);
  await raise(world, provider, job);
  for (let i = 0; i < 20; i++) await world.turn();
  const after = await world.settled(id);
  assert.deepEqual([after.stage, after.held ?? '0'], ['open', '0']);
  assert.equal(await world.tokens(client), 10_000_000);
  assert.equal(await world.tokens(world.escrowAddress), 0);
  assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
});

test('funding in another token does not fund the job', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const { anvil, escrowAddress } = world;
  const worthless = await anvil.deploy(contracts.token);
  const { id } = await posted(world, client, provider);
  const direct = (name: string, args: unknown[]) =>
    anvil.send(client.address, escrowAddress, contracts.escrow, name, args);
  const created = async () => (await world.evm.chain.read('jobCounter')) === 1n;
  while (!(await created())) await world.turn();
  // Between the two transactions of this server: the job exists, but its budget is not set.
  const amount = BigInt(agreed);
  assert.ok(await direct('setBudget', [1n, worthless, amount, '0x']));
  for (const [name, args] of [
    ['mint', [client.address, amount]],
    ['approve', [escrowAddress, amount]],
  ] as const)
    assert.ok(await anvil.send(client.address, worthless, contracts.token, name, [...args]));
  assert.ok(await direct('fund', [1n, amount, '0x']));
  await turns(world);
  const job = await world.settled(id);
  assert.deepEqual([job.stage, job.held ?? '0'], ['rejected', '0']);
});

test('a job is refused if the fees change before it is on the chain', async (t) => {
  const world = await createChainWorld(t);
  const { client, provider } = await parties(world);
  const { id } = await posted(world, client, provider);
  const { anvil, escrowAddress } = world;
  const { owner } = { owner: String(await world.evm.chain.read('owner')) };
  assert.ok(await anvil.send(owner, escrowAddress, contracts.escrow, 'setEvaluatorFee', [800n]));
  assert.equal((await world.settled(id)).stage, 'rejected');
  const later = await posted(world, client, provider, { repeat: true });
  assert.equal((await world.settled(later.id)).stage, 'open', 'with the new fees in its spec');
});
