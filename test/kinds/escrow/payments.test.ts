// Concurrent payments of one wallet: they share transactions, and each gets its own correct result.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { createWorld, refusal, type Answer } from './world.ts';

for (const factory of stores) {
  test(`${factory.name}: concurrent payments from one wallet are paid in full, once each, within its limits`, async (t) => {
    const world = await createWorld(t, { factory });
    const payer = await world.agent('payer', '10');
    const payee = await world.agent('payee');
    const pay = (n: number, amount = '0.10') =>
      world.call(payer, 'send_payment', { to: payee.wallet, amount, idempotencyKey: `key ${n}` });
    const first = await Promise.all(Array.from({ length: 40 }, (_, n) => pay(n)));
    assert.equal(new Set(first.map(({ id }: Answer) => id)).size, 40);
    assert.equal(await world.balance(payee), 4_000_000);
    assert.equal(await world.balance(payer), 10_000_000 - 40 * 102_000);
    // Repeat the same calls, mixed with new ones and one that reuses a key for another payment.
    const again = await Promise.allSettled([
      ...Array.from({ length: 40 }, (_, n) => pay(n)),
      pay(0, '0.20'),
      pay(40),
    ]);
    const ids = again.slice(0, 40).map((one) => (one as PromiseFulfilledResult<Answer>).value.id);
    assert.deepEqual(
      ids,
      first.map(({ id }: Answer) => id),
    );
    assert.match(String((again[40] as PromiseRejectedResult).reason), /another payment/);
    assert.equal(again[41]!.status, 'fulfilled');
    assert.equal(await world.balance(payee), 4_100_000);
    // More than the balance: payments are made while it lasts, the rest are refused.
    const rush = await Promise.allSettled(
      Array.from({ length: 30 }, (_, n) => pay(100 + n, '0.5')),
    );
    const paid = rush.filter(({ status }) => status === 'fulfilled').length;
    assert.equal(paid, Math.floor((10_000_000 - 41 * 102_000) / 510_000));
    assert.equal(await world.balance(payer), 10_000_000 - 41 * 102_000 - paid * 510_000);
    const list = await world.call(payee, 'list_payments', { limit: 100 });
    assert.equal(list.payments.length, 41 + paid);
    assert.equal((await world.call(world.admin, 'verify_escrow')).ok, true);
  });
}

test('a wallet change between two payments applies to the second one', async (t) => {
  const world = await createWorld(t);
  const payer = await world.agent('payer', '10');
  const payee = await world.agent('payee');
  const owner = { ...payer.caller };
  delete owner.subject;
  let n = 0;
  const pay = (amount = '1', to = payee.wallet) =>
    world.call(payer, 'send_payment', { to, amount, idempotencyKey: `key ${n++}` });
  await pay();
  await world.call(owner, 'update_wallet', { wallet: payer.wallet, frozen: true });
  assert.equal(await refusal(pay()), 'walletFrozen');
  await world.call(owner, 'update_wallet', { wallet: payer.wallet, frozen: false });
  await pay();
  await world.call(owner, 'update_wallet', { wallet: payer.wallet, limits: { perDay: '3' } });
  assert.equal(await refusal(pay()), 'dailyLimitExceeded');
  await world.call(owner, 'update_wallet', { wallet: payer.wallet, limits: { perDay: null } });
  await pay();
  await world.call(world.admin, 'pause_escrow', { paused: true });
  assert.equal(await refusal(pay()), 'escrowPaused');
  await world.call(world.admin, 'pause_escrow', { paused: false });
  await pay();
  assert.equal(await refusal(pay('1', `wal_${'0'.repeat(16)}`)), 'walletNotFound');
  // Credit received from elsewhere can be spent immediately.
  await world.call(payee, 'send_payment', { to: payer.wallet, amount: '3' });
  assert.equal((await pay('8.7')).balance, '0.046');
  assert.equal((await world.call(world.admin, 'verify_escrow')).ok, true);
});
