// A slow, wrong or lying chain node, and transactions that are never mined: nothing is lost and nothing is paid twice.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { refusal, posted, type Agent } from '../../world.ts';
import { createChainWorld, deployAll, type ChainWorld } from './chain-world.ts';
import { honest, startProxy, type Proxy } from './proxy.ts';

const stuckMs = 60_000;

interface Behind {
  world: ChainWorld;
  proxy: Proxy;
  client: Agent;
  provider: Agent;
  id: string;
}

/** A posted job in a world that reaches its chain through the proxy. */
async function behindProxy(t: TestContext, evm: Record<string, unknown> = {}): Promise<Behind> {
  const chained = await deployAll(t, 'fees');
  const proxy = await startProxy(t, chained.anvil);
  const world = await createChainWorld(t, { chained, evm: { rpcUrl: proxy.url, stuckMs, ...evm } });
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const { id } = await posted(world, client, provider);
  await world.settled(id);
  return { world, proxy, client, provider, id };
}

const escrowed = (world: ChainWorld) => world.tokens(world.escrowAddress);

test('a node of another chain is ignored', async (t) => {
  const { world, proxy, client, id } = await behindProxy(t);
  await world.call(client, 'fund_work', { id });
  proxy.meddle = ({ method }, pass) => (method === 'eth_chainId' ? Promise.resolve('0x1') : pass());
  assert.equal(await refusal(world.turn()), 'unavailable');
  const health = await world.call(world.admin, 'get_escrow_health');
  assert.match(health.settlements.evm, /another chain.* 1 instead of 31337/);
  const other = await world.agent('other');
  assert.equal(await refusal(posted(world, client, other)), 'unavailable');
  // The same chain id without any common block.
  proxy.meddle = async ({ method }, pass) => {
    const answer = await pass();
    if (method !== 'eth_getBlockByNumber' || answer === null) return answer;
    return { ...(answer as object), hash: `0x${'9'.repeat(64)}` };
  };
  assert.equal(await refusal(world.turn()), 'unavailable');
  const job = await world.call(world.admin, 'get_job', { id });
  assert.equal(job.stage, 'open', 'no job moved back');
  proxy.meddle = honest;
  assert.equal((await world.settled(id)).stage, 'funded');
  assert.equal(await escrowed(world), 1_000_000);
});

test('late or lost responses delay jobs, and nothing is sent twice', async (t) => {
  const { world, proxy, client, id } = await behindProxy(t, { timeoutMs: 300 });
  await world.call(client, 'fund_work', { id });
  proxy.meddle = () => new Promise(() => undefined);
  assert.equal(await refusal(world.turn()), 'unavailable');
  // Every transaction reaches the node, but the response is lost.
  let lost = 0;
  proxy.meddle = async ({ method }, pass) => {
    const answer = await pass();
    if (method !== 'eth_sendRawTransaction') return answer;
    lost += 1;
    throw new Error('lost');
  };
  for (let turns = 0; turns < 12; turns++) await world.turn().catch(() => undefined);
  assert.ok(lost >= 2);
  proxy.meddle = honest;
  assert.equal((await world.settled(id)).stage, 'funded');
  assert.equal(await world.tokens(client), 9_000_000);
  assert.equal(await escrowed(world), 1_000_000);
});

test('a node that lies about nonces costs time, not money', async (t) => {
  const { world, proxy, client, provider, id } = await behindProxy(t);
  // Too high: the transaction waits for nonces that nobody will use.
  proxy.meddle = ({ method }, pass) =>
    method === 'eth_getTransactionCount' ? Promise.resolve('0x40') : pass();
  await world.call(client, 'fund_work', { id });
  for (let turns = 0; turns < 3; turns++) await world.turn();
  proxy.meddle = honest;
  for (let turns = 0; turns < 5; turns++) await world.turn();
  assert.equal(await escrowed(world), 0);
  world.clock.jump(stuckMs);
  assert.equal((await world.settled(id)).stage, 'funded');
  assert.equal(await escrowed(world), 1_000_000);
  // Too low: a nonce that is already used.
  proxy.meddle = ({ method }, pass) =>
    method === 'eth_getTransactionCount' ? Promise.resolve('0x0') : pass();
  await world.call(provider, 'submit_work', { id, content: 'done' });
  for (let turns = 0; turns < 3; turns++) await world.turn();
  proxy.meddle = honest;
  assert.equal((await world.settled(id)).stage, 'submitted');
});

for (const winner of ['replacement', 'original'] as const) {
  test(`a stuck transaction is replaced with its nonce and a higher fee; the ${winner} is mined`, async (t) => {
    const { world, client, id } = await behindProxy(t);
    const { anvil } = world;
    await anvil.rpc('evm_setAutomine', [false]);
    await world.call(client, 'fund_work', { id });
    await world.turn();
    const txs = () =>
      world.store.read<{ hash: string; raw: string; nonce: number; status: string }>(
        `SELECT t.hash, t.raw, t.nonce, t.status FROM escrow_txs t
          JOIN escrow_intents i ON i.id = t.intent_id
          WHERE i.action = 'fund' AND t.step = 0 ORDER BY t.created_at`,
      );
    assert.equal((await txs()).length, 1);
    for (let turns = 0; turns < 3; turns++) await world.turn();
    assert.equal((await txs()).length, 1, 'not stuck yet');
    world.clock.jump(stuckMs);
    await world.turn();
    const [first, second] = await txs();
    assert.deepEqual([first!.status, second!.status], ['replaced', 'signed']);
    assert.equal(first!.nonce, second!.nonce);
    if (winner === 'original') {
      // A miner that never received the replacement.
      await anvil.rpc('anvil_dropTransaction', [second!.hash]);
      await anvil.rpc('eth_sendRawTransaction', [first!.raw]);
    }
    await anvil.rpc('evm_mine');
    await anvil.rpc('evm_setAutomine', [true]);
    assert.equal((await world.settled(id)).stage, 'funded');
    const states = (await txs()).map(({ status }) => status);
    assert.deepEqual(states, winner === 'original' ? ['mined', 'dropped'] : ['dropped', 'mined']);
    assert.equal(await world.tokens(client), 9_000_000);
    assert.equal(await escrowed(world), 1_000_000);
  });
}
