// One hire from start to end with every outcome, on every store: stages, money, deadlines, roles, refusals.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { createWorld, hourMs, isoIn, posted, refusal } from './world.ts';

for (const factory of stores) {
  test(`${factory.name}: a hire from post to payment divides the budget 93/5/2 exactly`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider, judge] = await Promise.all([
      world.agent('client', '10.00'),
      world.agent('provider'),
      world.agent('judge'),
    ]);
    const rule = { type: 'manual', wallet: judge.wallet };
    const open = await posted(world, client, provider, { rule, budget: '1000001' });
    assert.equal(open.stage, 'open');
    assert.equal(await world.balance(client), 10_000_000, 'posting moves no money');
    assert.deepEqual(open.availableActions, ['counter', 'fund', 'cancel']);
    assert.match(open.nextActor, /^client wal_/);

    const funded = await world.call(client, 'fund_work', { id: open.id });
    assert.equal(funded.stage, 'funded');
    assert.equal(funded.held, '1000001');
    assert.equal(await world.balance(client), 8_999_999);

    const input = { id: open.id, content: '{"summary":"short"}' };
    const delivered = await world.call(provider, 'submit_work', input);
    assert.equal(delivered.stage, 'submitted');
    assert.equal(
      (await world.call(undefined, 'get_job', { id: open.id })).status,
      'input_required',
    );

    const asked = await world.call(judge, 'read_work', { id: open.id });
    assert.deepEqual(asked.yourRoles, ['evaluator']);
    assert.deepEqual(asked.availableActions, ['approve', 'reject']);
    for (const agent of [client, provider, judge]) {
      const { work } = await world.call(agent, 'list_work', { role: 'any' });
      assert.deepEqual(
        work.map(({ id }: { id: string }) => id),
        [open.id],
      );
    }

    const done = await world.call(judge, 'evaluate_work', {
      id: open.id,
      verdict: 'approve',
      reason: 'good',
      checks: [{ criterion: 'one page', met: true }],
    });
    assert.equal(done.stage, 'completed');
    assert.equal(await world.balance(provider), 1_000_001 - 50_000 - 20_000);
    assert.equal(await world.balance(judge), 50_000);
    const books = await world.call(world.admin, 'verify_escrow');
    assert.deepEqual(books.problems, []);
    assert.equal(books.supply, '10000000');
    assert.equal(books.escrowed, '0');

    const { postings } = await world.call(provider, 'list_postings', { id: open.id });
    assert.deepEqual(
      postings.map(({ kind, amount }: { kind: string; amount: string }) => [kind, amount]),
      [
        ['hold', '1.000001'],
        ['release', '0.930001'],
        ['fee', '0.05'],
        ['fee', '0.02'],
      ],
    );
    const stranger = await world.agent('stranger');
    assert.equal(await refusal(world.call(stranger, 'list_postings', { id: open.id })), 'notParty');

    const seen = await world.call(undefined, 'get_job', { id: open.id });
    assert.equal(seen.status, 'completed');
    assert.deepEqual(
      seen.transactions.map((tx: { kind: string }) => tx.kind),
      ['create', 'fund', 'submit', 'complete'],
    );
    assert.equal(seen.evaluation.outcome, 'approved');
    assert.equal(seen.evaluation.checks, undefined, 'strangers do not see the evidence');
  });

  test(`${factory.name}: a rejection, a decline, a withdrawal and an expiry refund everything`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const judge = await world.agent('judge');
    const rule = { type: 'manual', wallet: judge.wallet };
    const start = (title: string) =>
      posted(world, client, provider, { rule, title, fund: true, repeat: true });

    const bad = await start('rejected');
    await world.call(provider, 'submit_work', { id: bad.id, content: 'x' });
    const rejected = await world.call(judge, 'evaluate_work', {
      id: bad.id,
      verdict: 'reject',
      reason: 'empty',
    });
    assert.equal(rejected.stage, 'rejected');
    assert.equal((await world.call(client, 'get_job', { id: bad.id })).status, 'failed');
    assert.equal(await world.balance(client), 10_000_000);

    const declined = await start('declined');
    assert.equal(await world.balance(client), 9_000_000);
    await world.call(provider, 'decline_work', { id: declined.id });
    assert.equal((await world.call(client, 'get_job', { id: declined.id })).status, 'cancelled');
    const again = await world.call(provider, 'decline_work', { id: declined.id });
    assert.equal(again.existing, true);

    const withdrawn = await posted(world, client, provider, { rule, repeat: true });
    await world.call(client, 'decline_work', { id: withdrawn.id });
    assert.equal((await world.call(client, 'get_job', { id: withdrawn.id })).stage, 'rejected');

    const late = await start('late');
    assert.equal(
      await refusal(world.call(client, 'refund_work', { id: late.id })),
      'notYetExpired',
    );
    world.clock.jump(24 * hourMs);
    await world.services.sweeper.sweep();
    const expired = await world.call(client, 'get_job', { id: late.id });
    assert.equal(expired.status, 'timed_out');
    assert.equal(expired.stage, 'expired');
    assert.equal(await world.balance(client), 10_000_000, 'no fee on a refund');
    assert.equal(await world.balance(judge), 0);
    assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
  });

  test(`${factory.name}: the deadline applies exactly, not one millisecond early`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const start = () =>
      posted(world, client, provider, {
        fund: true,
        repeat: true,
        expiresAt: isoIn(world, hourMs),
      });
    const early = await start();
    world.clock.jump(hourMs - 1);
    assert.equal(
      await refusal(world.call(client, 'refund_work', { id: early.id })),
      'notYetExpired',
    );
    const done = await world.call(provider, 'submit_work', { id: early.id, content: 'in time' });
    assert.equal(done.stage, 'submitted');
    const other = await start();
    world.clock.jump(hourMs);
    const late = world.call(provider, 'submit_work', { id: other.id, content: 'late' });
    assert.equal(await refusal(late), 'deadlinePassed');
    const refunded = await world.call(client, 'refund_work', { id: other.id });
    assert.equal(refunded.stage, 'expired');
    assert.equal((await world.call(client, 'refund_work', { id: other.id })).existing, true);
  });

  test(`${factory.name}: silence applies the agreed default: refund, release or split`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const cases = [
      { silence: 'refund', stage: 'expired', provider: 0, client: 10_000_000 },
      { silence: 'release', stage: 'completed', provider: 930_000, client: 9_050_000 },
      { silence: 'split', stage: 'completed', provider: 232_500, client: 9_762_500 },
    ];
    let earned = 0;
    let has = 10_000_000;
    for (const one of cases) {
      const more = { silence: one.silence, splitBps: 2500, fund: true, repeat: true };
      const job = await posted(world, client, provider, more);
      await world.call(provider, 'submit_work', { id: job.id, content: 'here' });
      const early = world.call(client, 'refund_work', { id: job.id });
      assert.equal(await refusal(early), 'evaluationPending');
      world.clock.jump(25 * hourMs);
      await world.services.sweeper.sweep();
      const seen = await world.call(client, 'get_job', { id: job.id });
      assert.equal(seen.stage, one.stage, one.silence);
      const again = await world.call(client, 'refund_work', { id: job.id });
      assert.equal(again.existing, true, 'a repeated call');
      earned += one.provider;
      has += one.client - 10_000_000;
      assert.equal(await world.balance(provider), earned, one.silence);
      assert.equal(await world.balance(client), has, `${one.silence}: client is its own evaluator`);
    }
    assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
  });

  test(`${factory.name}: a refund racing an approval has exactly one winner`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '100.00');
    const provider = await world.agent('provider');
    for (let round = 0; round < 8; round++) {
      const job = await posted(world, client, provider, { fund: true, repeat: true });
      await world.call(provider, 'submit_work', { id: job.id, content: `round ${round}` });
      const results = await Promise.allSettled([
        world.call(client, 'evaluate_work', { id: job.id, verdict: 'approve', reason: 'ok' }),
        world.call(provider, 'decline_work', { id: job.id }),
        world.call(client, 'evaluate_work', { id: job.id, verdict: 'reject', reason: 'no' }),
      ]);
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    }
    const books = await world.call(world.admin, 'verify_escrow');
    assert.deepEqual(books.problems, []);
    assert.equal(books.escrowed, '0');
  });

  test(`${factory.name}: milestones are delivered, judged and paid in order`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const milestones = [
      { title: 'draft', amount: '300000' },
      { title: 'final', amount: '700000' },
    ];
    const bad = posted(world, client, provider, { milestones: milestones.slice(0, 1) });
    assert.equal(await refusal(bad), 'invalidAmount');
    const job = await posted(world, client, provider, { milestones, fund: true });
    await world.call(provider, 'submit_work', { id: job.id, content: 'draft' });
    const first = await world.call(client, 'evaluate_work', {
      id: job.id,
      verdict: 'approve',
      reason: 'fine',
    });
    assert.equal(first.stage, 'funded');
    assert.equal(first.held, '700000');
    const seen = await world.call(provider, 'get_job', { id: job.id });
    const words = world.operations.find('get_job')!.text!(seen);
    assert.match(
      words,
      new RegExp(`\\nnext: provider ${provider.wallet} until ${seen.deadline}\\n`),
    );
    assert.match(words, /\nyou may: decline, submit\n/);
    assert.match(words, /\ntransactions: create, fund 1\.00, submit, release 0\.30$/);
    assert.equal(await world.balance(provider), 279_000);
    await world.call(provider, 'submit_work', { id: job.id, content: 'final' });
    const last = await world.call(client, 'evaluate_work', {
      id: job.id,
      verdict: 'reject',
      reason: 'not this',
    });
    assert.equal(last.stage, 'rejected');
    assert.equal(await world.balance(client), 10_000_000 - 300_000 + 15_000);
    assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
  });

  test(`${factory.name}: a repeated delivery or verdict counts only for its own milestone`, async (t) => {
    const world = await createWorld(t, { factory });
    t.after(() => world.services.schemas.stop());
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider'),
    ];
    const milestones = [1, 2, 3].map((n) => ({ title: `part ${n}`, amount: '100000' }));
    const terms = { milestones, budget: '300000', fund: true };
    const rule = { type: 'json_schema', schema: { type: 'object' } };
    const { id } = await posted(world, client, provider, { ...terms, rule });
    const deliver = async (content: string) => {
      const answer = await world.call(provider, 'submit_work', { id, content });
      await world.services.sweeper.sweep();
      return answer;
    };
    await deliver('{"part":1}');
    const again = await deliver('{"part":1}');
    assert.equal(again.existing, true, 'the same text is not a second delivery');
    assert.equal(again.stage, 'funded');
    assert.equal(await world.balance(provider), 93_000);
    await deliver('{"part":2}');
    assert.equal(await world.balance(provider), 2 * 93_000);
    const read = async (milestone?: number) =>
      (await world.call(client, 'read_work', { id, ...(milestone ? { milestone } : {}) }))
        .deliverable?.content ?? '';
    assert.match(await read(), /"part":2/, 'a paid delivery can be read');
    assert.match(await read(1), /"part":1/);
    assert.equal(await read(3), '');

    const manual = await posted(world, client, provider, { ...terms, repeat: true });
    const submit = (content: string) =>
      world.call(provider, 'submit_work', { id: manual.id, content });
    const approve = (contentHash: string) => {
      const verdict = { id: manual.id, verdict: 'approve', reason: 'good', contentHash };
      return world.call(client, 'evaluate_work', verdict);
    };
    const first = await submit('one');
    await approve(first.deliverable.hash);
    await submit('two');
    const late = await approve(first.deliverable.hash);
    assert.equal(late.existing, true, 'the repeated verdict on the first delivery');
    assert.equal(late.stage, 'submitted');
    const other = `sha256:${'0'.repeat(64)}`;
    assert.equal(await refusal(approve(other)), 'hashMismatch');
  });

  test(`${factory.name}: silence pays the delivered milestone, never later ones`, async (t) => {
    const world = await createWorld(t, { factory });
    const [client, provider] = [
      await world.agent('client', '10.00'),
      await world.agent('provider'),
    ];
    const milestones = [1, 2].map((n) => ({ title: `part ${n}`, amount: '500000' }));
    const silentOn = async (silence: string) => {
      const { id } = await posted(world, client, provider, {
        ...{ milestones, silence, fund: true, repeat: true },
      });
      await world.call(provider, 'submit_work', { id, content: 'part 1' });
      world.clock.jump(25 * hourMs);
      await world.services.sweeper.sweep();
      return world.call(client, 'get_job', { id });
    };
    const released = await silentOn('release');
    assert.equal(released.stage, 'funded', 'the second part is still to be delivered');
    assert.equal(released.held, '500000');
    assert.equal(await world.balance(provider), 465_000);
    world.clock.jump(25 * hourMs);
    await world.services.sweeper.sweep();
    assert.equal(await world.balance(provider), 465_000, 'nothing more without a delivery');
    const divided = await silentOn('split');
    assert.equal(divided.stage, 'completed');
    assert.equal(await world.balance(provider), 465_000 + 232_500);
    assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
  });

  test(`${factory.name}: a dispute holds the money until the arbiter or its deadline decides`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const arbiter = await world.agent('arbiter');
    const dispute = { arbiter: arbiter.wallet, windowMs: hourMs, resolveMs: 2 * hourMs };
    const start = async () => {
      const job = await posted(world, client, provider, { dispute, fund: true, repeat: true });
      await world.call(provider, 'submit_work', { id: job.id, content: 'done' });
      const reject = { id: job.id, verdict: 'reject', reason: 'do not like it' };
      const decided = await world.call(client, 'evaluate_work', reject);
      assert.equal(decided.stage, 'submitted', 'the verdict can still be disputed');
      assert.equal(decided.evaluation.outcome, 'rejected');
      return job;
    };
    const one = await start();
    await world.call(provider, 'dispute_work', { id: one.id, reason: 'it meets the spec' });
    const waiting = await world.call(arbiter, 'list_work', {
      role: 'arbiter',
      stage: ['disputed'],
    });
    assert.equal(waiting.work[0].id, one.id, 'the arbiter finds it');
    assert.deepEqual(waiting.work[0].availableActions, ['resolve']);
    const foreign = world.call(client, 'dispute_work', {
      id: one.id,
      reason: 'mine',
      resolution: 'refund',
    });
    assert.equal(await refusal(foreign), 'notArbiter');
    const resolved = await world.call(arbiter, 'dispute_work', {
      id: one.id,
      reason: 'half each',
      resolution: 'split',
      splitBps: 5000,
    });
    assert.equal(resolved.stage, 'completed');
    assert.equal(resolved.outcome, 'split');
    const { resolution } = (await world.call(client, 'get_job', { id: one.id })).dispute;
    assert.deepEqual([resolution.answer, resolution.reason], ['split', '“half each”']);
    for (const look of ['get_job', 'list_events']) {
      const seen = JSON.stringify(await world.call(undefined, look, { id: one.id }));
      assert.doesNotMatch(seen, /half each|meets the spec/, `${look}: strangers see no reasons`);
      assert.match(seen, /split/);
    }
    assert.equal(await world.balance(provider), 465_000);

    const two = await start();
    world.clock.jump(hourMs);
    await world.services.sweeper.sweep();
    assert.equal((await world.call(client, 'get_job', { id: two.id })).stage, 'rejected');

    const three = await start();
    await world.call(provider, 'dispute_work', { id: three.id, reason: 'wrong' });
    world.clock.jump(2 * hourMs);
    await world.services.sweeper.sweep();
    const divided = await world.call(client, 'get_job', { id: three.id });
    assert.deepEqual([divided.stage, divided.outcome], ['completed', 'split'], 'a silent arbiter');
    assert.deepEqual((await world.call(world.admin, 'verify_escrow')).problems, []);
  });

  test(`${factory.name}: a counter-offer changes the budget until the client funds the expected one`, async (t) => {
    const world = await createWorld(t, { factory });
    const client = await world.agent('client', '10.00');
    const provider = await world.agent('provider');
    const job = await posted(world, client, provider);
    await world.call(provider, 'counter_work', { id: job.id, budget: '2000000' });
    const blind = world.call(client, 'fund_work', { id: job.id, expectedBudget: '1000000' });
    assert.equal(await refusal(blind), 'budgetChanged');
    const funded = await world.call(client, 'fund_work', {
      id: job.id,
      expectedBudget: '2000000',
    });
    assert.equal(funded.held, '2000000');
    const again = await world.call(client, 'fund_work', { id: job.id });
    assert.equal(again.existing, true);
    assert.equal(await world.balance(client), 8_000_000, 'funded once');
  });
}
