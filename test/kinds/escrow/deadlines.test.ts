// Deadlines and silence: a crash or a slow check never costs a provider its pay, and every job ends.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { AppError } from '../../../src/errors.ts';
import { escrowSettingsSchema } from '../../../src/kinds/escrow/settings.ts';
import { stores, type StoreFactory } from '../../helpers/stores.ts';
import { createWorld, hourMs, isoIn, posted, refusal, type World } from './world.ts';

const maxEvaluationMs = 2 * hourMs;

/** A job with an http_check, a deadline in one hour and a refund on silence. */
async function submitted(
  t: TestContext,
  factory: StoreFactory,
  page: () => Promise<number>,
  more: Record<string, unknown> = {},
) {
  const fetch = async () => ({ status: await page(), headers: {}, body: Buffer.from('') });
  const settings = { maxEvaluationMs, maxHttpTries: 1 };
  const world = await createWorld(t, { factory, settings, deps: { fetch } });
  const client = await world.agent('client', '10.00');
  const provider = await world.agent('provider');
  const arbiter = await world.agent('arbiter');
  const job = await posted(world, client, provider, {
    rule: { type: 'http_check', url: 'https://example.com/' },
    fund: true,
    silence: 'refund',
    evaluationMs: 0,
    expiresAt: isoIn(world, hourMs),
    ...(more.arbiter ? { dispute: { arbiter: arbiter.wallet } } : {}),
  });
  await world.call(provider, 'submit_work', { id: job.id, content: 'done' });
  return { world, client, provider, arbiter, id: job.id as string };
}

const stageOf = async (world: World, id: string): Promise<string> =>
  (await world.call(undefined, 'get_job', { id })).stage;

/** Simulates a power loss during an evaluation, then starts the next process. */
async function restarted(t: TestContext, world: World, page: () => Promise<number>) {
  const fetch = async () => ({ status: await page(), headers: {}, body: Buffer.from('') });
  const { store, clock } = world;
  const settings = { maxEvaluationMs, maxHttpTries: 1 };
  const next = await createWorld(t, { store, clock, settings, deps: { fetch } });
  await next.services.evaluation.releaseLeases();
  return next;
}

for (const factory of stores) {
  test(`${factory.name}: an evaluation interrupted by a crash continues at the next start, before and after the deadline`, async (t) => {
    for (const downMs of [1000, 5 * hourMs]) {
      const { world, provider, id } = await submitted(t, factory, () => new Promise(() => {}));
      await world.services.sweeper.turn();
      world.clock.jump(downMs);
      const next = await restarted(t, world, async () => 200);
      await next.services.sweeper.sweep();
      assert.equal(await stageOf(next, id), 'completed', `down for ${downMs} ms`);
      assert.equal(await next.balance(provider), 930_000);
    }
  });

  test(`${factory.name}: an unfinished rule extends the deadline once, by a limited time`, async (t) => {
    const down = async (): Promise<number> => {
      throw new AppError('unavailable', 'The page does not answer.');
    };
    const waits = async () => {
      await Promise.resolve();
      return down();
    };
    const { world, client, id } = await submitted(t, factory, waits);
    const before = await world.call(client, 'get_job', { id });
    world.clock.jump(hourMs);
    assert.equal(await refusal(world.call(client, 'refund_work', { id })), 'evaluationPending');
    await world.services.sweeper.turn();
    await world.services.sweeper.finish();
    const moved = await world.call(client, 'get_job', { id });
    assert.equal(moved.stage, 'submitted');
    assert.equal(Date.parse(moved.deadline) - Date.parse(before.deadline), maxEvaluationMs);
    assert.equal(await refusal(world.call(client, 'refund_work', { id })), 'evaluationPending');
    world.clock.jump(maxEvaluationMs);
    await world.services.sweeper.turn();
    const over = await world.call(client, 'get_job', { id });
    assert.deepEqual([over.stage, over.outcome], ['expired', 'silence']);
    assert.equal(await world.balance(client), 10_000_000);
  });

  test(`${factory.name}: the arbiter decides when the rule cannot finish`, async (t) => {
    const page = () => new Promise<number>(() => {});
    const { world, client, provider, arbiter, id } = await submitted(t, factory, page, {
      arbiter: true,
    });
    await world.services.sweeper.turn();
    world.clock.jump(hourMs);
    await world.services.sweeper.turn();
    world.clock.jump(maxEvaluationMs);
    await world.services.sweeper.turn();
    const job = await world.call(client, 'get_job', { id });
    assert.equal(job.stage, 'disputed');
    assert.match(job.dispute.reason, /did not finish/);
    const decision = { id, reason: 'It is there.', resolution: 'release' };
    assert.equal((await world.call(arbiter, 'dispute_work', decision)).stage, 'completed');
    assert.equal(await world.balance(provider), 930_000);
  });

  test(`${factory.name}: by default a silent client pays for a delivery, and its job view says so`, async (t) => {
    const { evaluationMsDefault } = escrowSettingsSchema.parse({});
    const world = await createWorld(t, { factory, settings: { evaluationMsDefault } });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const job = await posted(world, client, provider, { fund: true });
    const sentence = 'If you do not respond within 3 days after delivery, the provider is paid.';
    assert.equal(job.onSilence, sentence);
    assert.ok(world.operations.get('post_work').description.includes(sentence));
    const offered = await world.call(provider, 'get_job', { id: job.id });
    assert.match(offered.onSilence, /^If the client does not respond within 3 days/);
    assert.match(offered.risk, /decides alone and there is no arbiter/);
    await world.call(provider, 'submit_work', { id: job.id, content: 'here' });
    world.clock.jump(72 * hourMs - 1);
    await world.services.sweeper.sweep();
    assert.equal(await stageOf(world, job.id), 'submitted');
    world.clock.jump(1);
    await world.services.sweeper.sweep();
    assert.equal(await stageOf(world, job.id), 'completed');
    assert.equal(await world.balance(provider), 930_000);
  });
}
