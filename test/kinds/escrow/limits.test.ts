// Limits: what a wallet key may create, counter-offers per job, minimum delivery time, acceptable deliveries.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak256 } from '../../../src/runtime/keccak.ts';
import { stores } from '../../helpers/stores.ts';
import { createWorld, isoIn, posted, refusal, type Agent } from './world.ts';

const count = process.env.ERRAND_TEST_DEEP === '1' ? 10_000 : 1000;

for (const factory of stores) {
  test(`${factory.name}: a wallet key cannot create wallets or keys, and its webhook is removed with it`, async (t) => {
    const world = await createWorld(t, { factory, settings: { maxWallets: 2, maxUnclaimed: 2 } });
    const owner = { ...world.admin, owner: 'alice', admin: false };
    const { id: wallet } = await world.call(owner, 'create_wallet', { withKey: true });
    const key = {
      ...owner,
      subject: `wallet:${wallet}`,
      scopes: new Set(['read', 'run'] as const),
    };
    const create = world.call(key, 'create_wallet', { withKey: true });
    assert.equal(await refusal(create), 'forbidden');
    const { claimKey } = await world.call(undefined, 'open_wallet', {});
    assert.equal(await refusal(world.call(key, 'claim_wallet', { claimKey })), 'forbidden');
    assert.equal(await refusal(world.call(key, 'verify_escrow')), 'forbidden');
    const hook = { wallet, url: 'https://example.com/' };
    await world.call(key, 'set_wallet_webhook', hook);
    await world.call(owner, 'update_wallet', { wallet, rotateKey: true });
    const left = await world.call(owner, 'set_wallet_webhook', { wallet });
    assert.equal(left.url, undefined, 'the webhook of the old key is gone');

    // However a key ends, what it subscribed ends with it; the owner's own webhooks stay.
    const url = async () => (await world.call(owner, 'set_wallet_webhook', { wallet })).url;
    const { access } = world.services;
    const grant = { owner: 'alice', scopes: ['read', 'run'] as const, subject: `wallet:${wallet}` };
    const subscribed = async (more: { expiresAt?: number } = {}) => {
      const { row } = await access.create({ ...grant, ...more }, 'server');
      const bound = { ...key, keyId: row.id, ...more };
      await world.call(bound, 'set_wallet_webhook', hook);
      const job = await posted(world, bound, provider, { repeat: true });
      const one = { url: 'https://example.com/job', jobId: job.id, events: ['*'] };
      const { id } = await world.call(bound, 'create_webhook', one);
      return { keyId: row.id, gone: async () => !(await world.webhooks.find(id)) };
    };
    const provider = await world.agent('provider');
    const revoked = await subscribed();
    assert.equal(await url(), hook.url);
    await access.revoke(revoked.keyId);
    assert.deepEqual([await url(), await revoked.gone()], [undefined, true]);
    const rotated = await subscribed();
    await access.rotate(rotated.keyId, 'server');
    assert.deepEqual([await url(), await rotated.gone()], [undefined, true]);
    const expired = await subscribed({ expiresAt: world.clock.now() + 1000 });
    assert.equal(await url(), hook.url);
    world.clock.jump(1000);
    assert.deepEqual([await url(), await expired.gone()], [undefined, true]);
    const last = await subscribed();
    await world.call(owner, 'set_wallet_webhook', hook);
    await access.revoke(last.keyId);
    assert.equal(await url(), hook.url, 'the owner set the same address itself');

    await world.call(owner, 'create_wallet', {});
    assert.equal(await refusal(world.call(owner, 'create_wallet', {})), 'limitExceeded');
    await world.call(undefined, 'open_wallet', {});
    assert.equal(await refusal(world.call(undefined, 'open_wallet', {})), 'limitExceeded');
    world.clock.jump(8 * 86_400_000);
    await world.call(undefined, 'open_wallet', {});
  });

  test(`${factory.name}: a job accepts a limited number of counter-offers and shows the newest`, async (t) => {
    const world = await createWorld(t, { factory, settings: { maxOffers: 7 } });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const { id } = await posted(world, client, provider);
    const offer = (who: typeof client, n: number) =>
      world.call(who, 'counter_work', { id, budget: String(1_000_000 + n) });
    for (let n = 1; n <= 7; n++) await offer(provider, n);
    assert.equal(await refusal(offer(provider, 8)), 'limitExceeded');
    await offer(client, 9);
    const seen = await world.call(undefined, 'get_job', { id });
    assert.deepEqual([seen.offers.length, seen.offersMade], [5, 8]);
    assert.equal(seen.offers.at(-1).budget, '1000009');
  });

  test(`${factory.name}: a wallet has a limited number of open jobs, however many calls arrive concurrently`, async (t) => {
    const world = await createWorld(t, { factory, settings: { maxOpenWork: 3 } });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const post = (more: Record<string, unknown>) => posted(world, client, provider, more);
    const first = await post({ idempotencyKey: 'one' });
    await post({ idempotencyKey: 'two' });
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, n) => refusal(post({ title: `Report ${n}` }))),
    );
    assert.equal(outcomes.filter((code) => code === 'nothing was refused').length, 1);
    assert.equal(outcomes.filter((code) => code === 'limitExceeded').length, 49);
    const { total } = await world.call(client, 'list_work', { role: 'client', total: true });
    assert.equal(total, 3);
    await assert.rejects(post({ fund: true }), {
      message: `Wallet ${client.wallet} has 3 open jobs that are not funded, which is the maximum.`,
      hint: 'Fund one with fund_work, or withdraw one with decline_work. list_work with role "client" and stage ["open"] lists them. The setting `escrow.maxOpenWork` sets this limit.',
    });

    const again = await post({ idempotencyKey: 'one' });
    assert.deepEqual(
      [again.id, again.existing],
      [first.id, true],
      'a repeated call creates nothing',
    );
    const other = await world.agent('other');
    assert.equal(await refusal(posted(world, other, provider)), 'nothing was refused');
    // Funding and withdrawing make room for one more, once.
    for (const step of ['fund_work', 'decline_work']) {
      const [open] = (await world.call(client, 'list_work', { role: 'client', stage: ['open'] }))
        .work;
      await world.call(client, step, { id: open.id });
      assert.equal(await refusal(post({ title: step })), 'nothing was refused');
      assert.equal(await refusal(post({ title: `${step} again` })), 'limitExceeded');
    }
  });

  test(`${factory.name}: a job cannot have less time than the operator's minimum`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const brief = (minExpiryMs: number, ms: number) =>
      refusal(posted(world, client, provider, { minExpiryMs, expiresAt: isoIn(world, ms) }));
    assert.equal(await brief(0, 1000), 'expiryTooShort');
    assert.equal(await brief(120_000, 90_000), 'expiryTooShort');
    assert.equal(await brief(0, 90_000), 'nothing was refused');
  });

  test(`${factory.name}: a delivery that the rule can never accept does not count`, async (t) => {
    const vetUrl = async (url: string) => {
      if (url.includes('10.0.0.1')) throw new Error('a private address');
    };
    const world = await createWorld(t, { factory, deps: { vetUrl } });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const schema = { type: 'json_schema', schema: { type: 'object' } };
    const quorum = { type: 'quorum', need: 2, members: [schema, { type: 'manual' }] };
    const contentHash = keccak256('{}');
    for (const rule of [schema, quorum]) {
      const more = { rule, fund: true, title: rule.type };
      const { id } = await posted(world, client, provider, more);
      const submit = (delivery: object) =>
        refusal(world.call(provider, 'submit_work', { id, ...delivery }));
      assert.equal(await submit({ contentHash }), 'deliveryCannotPass');
      const ipfs = { contentHash, uri: 'ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3' };
      assert.equal(await submit(ipfs), 'deliveryCannotPass');
      const inside = { contentHash, uri: 'http://10.0.0.1/' };
      assert.equal(await submit(inside), 'deliveryCannotPass');
      for (const content of ['', 'plain text', '{"a":1', '{} {}'])
        assert.equal(await submit({ content }), 'deliveryCannotPass', content);
      assert.equal((await world.call(client, 'get_job', { id })).stage, 'funded');
      assert.equal(await submit({ content: '{}' }), 'nothing was refused');
    }
    const { id } = await posted(world, client, provider, { fund: true });
    const uri = 'ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3';
    const done = await world.call(provider, 'submit_work', { id, contentHash, uri });
    assert.equal(done.deliverable.uri, uri, 'a person can fetch it');
  });

  test(`${factory.name}: every x402 call pays, except a retry with the same key`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '1000');
    const provider = await world.agent('provider');
    const pay = (more: object = {}) =>
      world.call(client, 'pay_x402', {
        ...{ url: 'https://example.com/data', maxAmount: '0.01', recipient: provider.wallet },
        ...more,
      });
    const paid = await Promise.all(Array.from({ length: count }, () => pay()));
    assert.equal(new Set(paid.map(({ paymentId }) => paymentId)).size, count);
    assert.equal(await world.balance(provider), count * 10_000);
    const keyed = await Promise.all(
      Array.from({ length: 20 }, () => pay({ idempotencyKey: 'once' })),
    );
    assert.equal(new Set(keyed.map(({ paymentId }) => paymentId)).size, 1);
    assert.equal(await world.balance(provider), (count + 1) * 10_000);
  });

  test(`${factory.name}: a mint id counts per wallet`, async (t) => {
    const world = await createWorld(t, { factory });
    const [one, other] = [await world.agent('one'), await world.agent('other')];
    const mint = (agent: Agent, amount: string) =>
      world.call(world.admin, 'mint_credit', {
        ...{ wallet: agent.wallet, amount, transferId: 'first-credit' },
      });
    for (const agent of [one, one, other]) {
      assert.equal((await mint(agent, '25.00')).balance, '25.00');
    }
    assert.equal(await refusal(mint(one, '26.00')), 'idempotencyConflict');
    await Promise.all([mint(one, '25.00'), mint(other, '25.00')]);
    const { problems, supply } = await world.call(world.admin, 'verify_escrow', {});
    assert.deepEqual([problems, supply], [[], '50000000']);
  });
}
