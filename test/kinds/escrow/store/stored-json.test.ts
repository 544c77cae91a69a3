// The JSON that escrow stores: its keys are a file format. A spec is hashed and agreed on, so its text must stay
// byte-identical, and later versions must read rows that earlier ones wrote.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import test from 'node:test';
import { stores } from '../../../helpers/stores.ts';
import { until } from '../../../helpers/until.ts';
import { createWorld, hourMs, posted, refusal, specOf, type Agent, type World } from '../world.ts';

/** The spec text that the first version wrote for a job like this; only ids, addresses and times differ. */
const storedSpec = (id: string, client: object, provider: object): string =>
  `{"version":"1.0","jobId":"${id}","title":"Count the words","description":"As JSON","settlement":"ledger",` +
  `"client":${JSON.stringify(client)},"provider":${JSON.stringify(provider)},` +
  `"budget":{"amount":"1000000","currency":"CREDIT","decimals":6,"max":"3000000"},` +
  `"evaluation":{"type":"manual"},"fees":{"platformBps":200,"evaluatorBps":500},` +
  `"fundBy":"2026-01-11T00:00:00.000Z","expiredAt":"2026-01-11T00:00:00.000Z","evaluationMs":3600000,` +
  `"silence":"release","splitBps":5000,"disputeWindowMs":0,"dispute":null,"milestones":[],` +
  `"createdAt":"2026-01-10T00:00:00.000Z"}`;

const request = {
  title: 'Count the words',
  description: 'As JSON',
  budget: '1000000',
  maxBudget: '3000000',
  minExpiryMs: hourMs,
};

for (const factory of stores) {
  test(`${factory.name}: a new spec has the keys and the order of the stored format`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider'),
    ];
    const { id } = await posted(world, client, provider, request);
    const spec = await specOf(world, id);
    const parties = JSON.parse(spec) as { client: object; provider: object };
    assert.equal(spec, storedSpec(id, parties.client, parties.provider));
  });

  test(`${factory.name}: a stored spec keeps its hash, and its limit still applies`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider'),
    ];
    const { id } = await posted(world, client, provider, { ...request, maxBudget: '9000000' });
    const text = storedSpec(id, { wallet: client.wallet }, { wallet: provider.wallet });
    await storeSpec(world, id, text);

    const read = await world.call(client, 'read_work', { id });
    assert.equal(read.specHash, `sha256:${hash('sha256', text)}`);
    const offer = world.call(provider, 'counter_work', { id, budget: '3000001' });
    assert.equal(await refusal(offer), 'maxBudgetExceeded');
    await world.call(client, 'fund_work', { id });
    await world.call(provider, 'submit_work', { id, content: '{"words":1}' });
    await world.call(client, 'evaluate_work', { id, verdict: 'approve', reason: 'fine' });
    assert.equal(await specOf(world, id), text, 'the bytes never change');
  });

  test(`${factory.name}: stored state, limits and payment details have the agreed keys`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider'),
    ];
    const { id } = await posted(world, client, provider, request);
    await limited(world, client);
    await world.call(client, 'pay_x402', {
      url: 'https://example.com/data',
      maxAmount: '0.01',
      recipient: provider.wallet,
    });
    const json = async (sql: string, params: string[]) => {
      const [row] = await world.store.read(sql, params);
      return Object.keys(JSON.parse(row!.json as string) as object);
    };
    const state = 'SELECT state AS json FROM escrow_work WHERE job_id = ?';
    const policy = 'SELECT policy AS json FROM escrow_accounts WHERE id = ?';
    const detail = 'SELECT detail AS json FROM escrow_payments WHERE payer = ?';
    assert.deepEqual(await json(state, [id]), [
      'offers',
      'milestone',
      'submission',
      'verdict',
      'votes',
      'dispute',
      'tries',
      'lastTry',
      'txs',
      'pending',
      'outcome',
    ]);
    const limits = ['txLimit', 'dailyLimit', 'allowlist', 'expiresAt'];
    assert.deepEqual(await json(policy, [client.wallet]), limits);
    assert.deepEqual(await json(detail, [client.wallet]), ['resource']);
  });
}

for (const factory of stores)
  test(`${factory.name}: a job whose terms cannot be decoded stops no webhook`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [await world.agent('client'), await world.agent('provider')];
    for (const { caller, wallet } of [client, provider])
      await world.call(caller, 'set_wallet_webhook', { wallet, url: `https://x.test/${wallet}` });
    const { subject: _, ...owner } = client.caller;
    const hook = { url: 'https://x.test/owner', events: ['submitted'] };
    await world.call(owner, 'create_webhook', hook);
    const damaged = await posted(world, client, provider, { title: 'damaged' });
    await storeSpec(world, damaged.id, '{"broken');
    const next = await posted(world, client, provider, { title: 'next' });
    await world.webhooks.start();
    t.after(() => world.webhooks.stop());
    const about = (id: string) => world.sent.filter(({ body }) => body.includes(id));
    await until('the webhooks about the later job are sent', () => about(next.id).length === 3);
    assert.ok(about(damaged.id).length > 0, 'its owner still gets its events');
  });

async function storeSpec(world: World, id: string, text: string): Promise<void> {
  await world.store.commit([
    { sql: 'UPDATE escrow_work SET spec = ? WHERE job_id = ?', params: [text, id] },
  ]);
}

async function limited(world: World, { wallet }: Agent): Promise<void> {
  const limits = { perTransaction: '5.00', perDay: '8.00' };
  await world.call(world.admin, 'update_wallet', { wallet, limits });
}
