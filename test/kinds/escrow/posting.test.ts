// Which post_work calls count as the same purchase.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { createWorld, posted, refusal } from './world.ts';

for (const factory of stores) {
  test(`${factory.name}: with an idempotency key only the key decides; without one the texts count`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const post = (more: Record<string, unknown>) => posted(world, client, provider, more);
    const first = await post({ idempotencyKey: 'one' });
    const other = { idempotencyKey: 'two', title: 'Another title', description: 'Another task.' };
    const second = await post(other);
    assert.notEqual(second.id, first.id);
    assert.equal(second.title, 'Another title');
    const same = await post({ idempotencyKey: 'three' });
    assert.notEqual(same.id, first.id, 'a new key is a new job, even with equal fields');
    const again = await post({ idempotencyKey: 'one', title: 'Put differently' });
    assert.deepEqual([again.id, again.existing], [first.id, true]);
    const dearer = post({ idempotencyKey: 'one', budget: '2000000' });
    assert.equal(await refusal(dearer), 'idempotencyConflict');

    const plain = await post({});
    assert.notEqual(plain.id, first.id);
    assert.deepEqual([(await post({})).id, (await post({})).existing], [plain.id, true]);
    const described = await post({ description: 'Two pages.' });
    assert.notEqual(described.id, plain.id);
    assert.notEqual((await post({ title: 'Summarise the other report' })).id, plain.id);
    assert.notEqual((await post({ repeat: true })).id, plain.id);
    // Each of these decides who gets the money, so it is another offer.
    const arbiter = await world.agent('arbiter');
    const others = [
      { silence: 'refund' },
      { silence: 'split', splitBps: 1000 },
      { silence: 'split', splitBps: 9000 },
      { dispute: { arbiter: arbiter.wallet } },
      { dispute: { arbiter: arbiter.wallet, windowMs: 1000 } },
      { maxBudget: '3000000' },
      { evaluationMs: 1000 },
      { visibility: 'private' },
      { milestones: [{ title: 'All of it', amount: '1000000' }] },
      { milestones: [{ title: 'Everything', amount: '1000000' }] },
    ];
    const ids = [plain.id];
    for (const more of others) ids.push((await post(more)).id);
    assert.equal(new Set(ids).size, ids.length);
    const last = await post(others.at(-1)!);
    assert.deepEqual([last.id, last.existing], [ids.at(-1), true]);
    // A model that retries computes the deadline again.
    const later = await post({ expiresAt: new Date(world.clock.now() + 9e7).toISOString() });
    assert.deepEqual([later.id, later.existing], [plain.id, true]);
  });

  test(`${factory.name}: a payment without a key is recognised by all its fields, the memo included`, async (t) => {
    const world = await createWorld(t, { factory });
    const payer = await world.agent('payer', '10.00');
    const { wallet: to } = await world.agent('payee');
    const pay = (more: object) => world.call(payer, 'send_payment', { to, amount: '1', ...more });
    const memos = ['invoice 1', 'invoice 2', undefined];
    const paid = await Promise.all(
      [...memos, ...memos].map((memo) => pay(memo === undefined ? {} : { memo })),
    );
    assert.equal(new Set(paid.map(({ id }) => id)).size, 3);
    assert.equal(paid.filter(({ existing }) => existing).length, 3);
    const keyed = await pay({ idempotencyKey: 'k', memo: 'one' });
    assert.equal((await pay({ idempotencyKey: 'k', memo: 'in other words' })).id, keyed.id);
  });
}
