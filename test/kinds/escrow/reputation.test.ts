// Reputation comes from accepted or delivered work for other owners; it can neither be faked nor destroyed for free.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { createWorld, hourMs, posted, type Answer } from './world.ts';

for (const factory of stores) {
  test(`${factory.name}: the score counts each delivery once, and no payments`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider', '10.00'),
    ];
    for (const verdict of ['approve', 'reject', 'approve']) {
      const { id } = await posted(world, client, provider, { fund: true, repeat: true });
      await world.call(provider, 'submit_work', { id, content: verdict });
      world.clock.jump(1000);
      const judged = { id, verdict, reason: 'as it is' };
      await world.call(client, 'evaluate_work', judged);
      await world.call(client, 'evaluate_work', judged);
    }
    await posted(world, client, provider, { fund: true, repeat: true });
    world.clock.jump(25 * hourMs);
    await world.services.sweeper.sweep();
    world.clock.jump(1000);
    const order = { to: client.wallet, amount: '1', idempotencyKey: 'one' };
    await world.call(provider, 'send_payment', order);
    await world.call(provider, 'send_payment', order);
    const found = await world.call(undefined, 'get_reputation', { wallet: provider.address });
    assert.equal(found.score.total, 5 - 3 + 5, 'an undelivered, expired job does not count');
    const types = found.events.map(({ type }: Answer) => type);
    assert.deepEqual(types, [
      'payment_success',
      ...['job_completed', 'job_rejected', 'job_completed'],
    ]);
    assert.equal(found.lastActiveAt, new Date(world.clock.now()).toISOString());
    const short = await world.call(undefined, 'get_reputation', {
      ...{ wallet: provider.wallet, limit: 1 },
    });
    assert.deepEqual(short.events, found.events.slice(0, 1));
  });

  test(`${factory.name}: a score can neither be destroyed nor faked for free`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '50.00'),
      await world.agent('provider', '10.00'),
    ];
    const scoreOf = async () =>
      (await world.call(undefined, 'get_reputation', { wallet: provider.wallet })).score;
    const judged = async (verdict: string, budget: string, delivers: boolean) => {
      const more = { budget, fund: true, repeat: true };
      const { id } = await posted(world, client, provider, more);
      if (delivers) await world.call(provider, 'submit_work', { id, content: id });
      await world.call(client, 'evaluate_work', { id, verdict, reason: 'x' });
    };
    for (let n = 0; n < 3; n++) await judged('reject', '1', false);
    assert.deepEqual(await scoreOf(), { total: 0, success: 0, failure: 0 });
    await judged('reject', '1', true);
    assert.equal((await scoreOf()).failure, 0, 'a tiny job has almost no weight');
    for (let n = 0; n < 4; n++) await judged('reject', '2000000', true);
    assert.equal((await scoreOf()).failure, -3, 'the limit per counterparty');
    for (let n = 0; n < 6; n++) await judged('approve', '2000000', true);
    assert.equal((await scoreOf()).success, 10, 'the limit applies to praise as well');

    // Two wallets of one owner.
    const [one, two] = [await world.agent('self', '50.00'), await world.agent('self')];
    for (let n = 0; n < 3; n++) {
      const { id } = await posted(world, one, two, { fund: true, repeat: true });
      await world.call(two, 'submit_work', { id, content: id });
      await world.call(one, 'evaluate_work', { id, verdict: 'approve', reason: 'x' });
      await world.call(one, 'send_payment', { to: two.wallet, amount: '1', repeat: true });
    }
    for (const { wallet } of [one, two]) {
      const { score, counts } = await world.call(undefined, 'get_reputation', { wallet });
      assert.deepEqual([score.total, counts.jobs, counts.payments], [0, 0, 0]);
    }

    // Anybody can open wallets, and each of them has no owner yet.
    for (let n = 0; n < 3; n++) {
      const { id } = await world.call(undefined, 'open_wallet', {});
      await world.call(one, 'send_payment', { to: id, amount: '0.000001' });
    }
    const paid = await world.call(undefined, 'get_reputation', { wallet: one.wallet });
    assert.deepEqual([paid.score.total, paid.counts.payments], [0, 0]);
  });
}
