// Which calls of post_work are the same purchase.
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
    assert.notEqual(same.id, first.id, 'a new key is a new job, also with equal fields');
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
  });
}
