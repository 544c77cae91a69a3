// A key bound to a wallet sees only that wallet's jobs. Other wallets of the same owner are strangers to it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Caller } from '../../../src/operation.ts';
import { createWorld, refusal, type World } from './world.ts';

async function walletOf(world: World, name: string) {
  const { id } = await world.services.wallets.create('company', name);
  const scopes: Caller['scopes'] = new Set(['read', 'run']);
  const caller: Caller = { owner: 'company', scopes, admin: false, local: false };
  return { id, key: { ...caller, kinds: ['escrow'], subject: `wallet:${id}` }, caller };
}

test("a wallet key sees its own jobs and only the public part of its owner's other jobs", async (t) => {
  const world = await createWorld(t);
  const client = await walletOf(world, 'client');
  const provider = await walletOf(world, 'provider');
  const other = await walletOf(world, 'other');
  await world.call(world.admin, 'mint_credit', {
    ...{ wallet: client.id, amount: '10.00', transferId: 'start' },
  });
  const post = async (visibility: string) => {
    const terms = { provider: provider.id, budget: '1000', title: 'Secret plan', description: 'x' };
    const more = { tags: ['q3'], fund: true, repeat: true };
    return (await world.call(client.key, 'post_work', { ...terms, ...more, visibility })).id;
  };
  const [hidden, open] = [await post('private'), await post('public')];
  const look = { id: hidden };
  for (const { key } of [client, provider]) {
    assert.equal((await world.call(key, 'get_job', look)).stage, 'funded');
    assert.equal((await world.call(key, 'list_jobs')).jobs.length, 2);
  }
  for (const name of ['get_job', 'read_work', 'refund_work', 'cancel_job', 'list_events']) {
    assert.equal(await refusal(world.call(other.key, name, look)), 'notFound', name);
  }
  const wait = { ids: [hidden], timeoutMs: 0 };
  assert.equal(await refusal(world.call(other.key, 'wait_for_jobs', wait)), 'notFound');
  assert.deepEqual((await world.call(other.key, 'list_jobs')).jobs, []);

  const seen = await world.call(other.key, 'get_job', { id: open, includeInput: true });
  assert.equal(seen.stage, 'funded');
  assert.deepEqual([seen.tags, seen.input], [undefined, undefined], 'the public view');
  const whole = await world.call(other.caller, 'get_job', look);
  assert.deepEqual(whole.tags, ['q3'], "the owner's own key sees all jobs of the owner");
});

test('a refusal lists only actions that the job supports', async (t) => {
  const world = await createWorld(t);
  const [client, provider] = [await world.agent('client', '10.00'), await world.agent('provider')];
  const job = await world.call(client, 'post_work', {
    ...{ provider: provider.wallet, budget: '1000', title: 'a', description: 'b', fund: true },
  });
  await world.call(provider, 'submit_work', { id: job.id, content: 'done' });
  const judge = { id: job.id, verdict: 'approve', reason: 'mine' };
  await assert.rejects(world.call(provider, 'evaluate_work', judge), {
    hint: 'You can now: decline.',
  });
});
