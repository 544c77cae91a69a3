// Reputation is the sum of what is shown for it: every ended job and every payment made, once each.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { createWorld, hourMs, posted, type Answer } from './world.ts';

for (const factory of stores) {
  test(`${factory.name}: the score of a wallet is the sum of its events`, async (t) => {
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
    const sum = found.events.reduce((total: number, { points }: Answer) => total + points, 0);
    assert.equal(found.score.total, 5 - 3 + 5 - 1 + 1);
    assert.equal(sum, found.score.total);
    const types = found.events.map(({ type }: Answer) => type);
    assert.deepEqual(types, [
      ...['payment_success', 'job_expired'],
      ...['job_completed', 'job_rejected', 'job_completed'],
    ]);
    assert.equal(found.lastActiveAt, new Date(world.clock.now()).toISOString());
    const short = await world.call(undefined, 'get_reputation', {
      ...{ wallet: provider.wallet, limit: 1 },
    });
    assert.deepEqual(short.events, found.events.slice(0, 1));
  });
}
