// Bad input and bad behaviour: each is refused with its code, and nothing is left half done.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stores } from '../../helpers/stores.ts';
import { verifyBooks } from '../../../src/kinds/escrow/verify.ts';
import { createWorld, hourMs, isoIn, posted, refusal, type Agent, type World } from './world.ts';

async function pair(world: World, credit = '10.00') {
  return { client: await world.agent('client', credit), provider: await world.agent('provider') };
}

test('an amount is a positive whole number of micro-units as text', async (t) => {
  const world = await createWorld(t);
  const { client, provider } = await pair(world);
  const bad = ['0', '-1', '+1', '1.5', '1e6', '0x10', '', ' 1', '01', '9007199254740993'];
  for (const budget of [...bad, String(2n ** 63n), '1000000000000001', 'USDC 5', '١']) {
    assert.equal(
      await refusal(posted(world, client, provider, { budget })),
      'invalidAmount',
      budget,
    );
  }
  for (const budget of [5, null, ['1'], 2 ** 63]) {
    assert.equal(await refusal(posted(world, client, provider, { budget })), 'invalidInput');
  }
  const pay = (amount: string) =>
    world.call(client, 'send_payment', { to: provider.wallet, amount });
  for (const amount of ['0', '0.00', '-1', '1e2', '0.0000001', '1,5', '.5', 'NaN', '2500000.']) {
    assert.equal(await refusal(pay(amount)), 'invalidAmount', amount);
  }
  assert.equal(await world.balance(client), 10_000_000);
});

test('one wallet cannot hold two roles that must control each other', async (t) => {
  const world = await createWorld(t);
  const { client, provider } = await pair(world);
  const other = await world.agent('other');
  const manual = (wallet: Agent) => ({ type: 'manual', wallet: wallet.wallet });
  const pairs: Record<string, Record<string, unknown>> = {
    'client and provider': { provider: client.wallet },
    'provider and evaluator': { rule: manual(provider) },
    'provider and evaluator by address': {
      rule: { type: 'manual', wallet: provider.address },
    },
    'provider and arbiter': { dispute: { arbiter: provider.wallet } },
    'client and arbiter': { dispute: { arbiter: client.wallet } },
    'evaluator and arbiter': { rule: manual(other), dispute: { arbiter: other.wallet } },
    'member and arbiter': {
      rule: { type: 'quorum', need: 1, members: [manual(other), { type: 'manual' }] },
      dispute: { arbiter: other.wallet },
    },
    'provider in a quorum': {
      rule: { type: 'quorum', need: 1, members: [manual(other), manual(provider)] },
    },
    'one wallet twice in a quorum': {
      rule: { type: 'quorum', need: 2, members: [manual(other), manual(other)] },
    },
  };
  for (const [name, more] of Object.entries(pairs)) {
    assert.equal(await refusal(posted(world, client, provider, more)), 'selfJob', name);
  }
  const self = world.call(client, 'send_payment', { to: client.address, amount: '1.00' });
  assert.equal(await refusal(self), 'selfJob');
  assert.equal((await posted(world, client, provider, { rule: manual(client) })).stage, 'open');
});

test('a rule that can never run is refused before money is at stake', async (t) => {
  const world = await createWorld(t, { settings: { checks: { spell: { command: 'true' } } } });
  const { client, provider } = await pair(world);
  const impossible: unknown[] = [
    { type: 'command', check: 'missing' },
    { type: 'json_schema', schema: { type: 'nonsense' } },
    { type: 'json_schema', schema: { $ref: '#/nowhere' } },
    {
      type: 'quorum',
      need: 3,
      members: [{ type: 'manual' }, { type: 'command', check: 'missing' }],
    },
  ];
  for (const rule of impossible) {
    const code = await refusal(posted(world, client, provider, { rule }));
    assert.equal(code, 'ruleCannotRun', JSON.stringify(rule));
  }
  const malformed: unknown[] = [
    { type: 'http_check' },
    { type: 'http_check', url: 'file:///etc/passwd' },
    { type: 'http_check', url: 'https://x.example', timeoutMs: 10 ** 9 },
    { type: 'command', check: 'rm -rf /' },
    { type: 'command', command: 'true' },
    { type: 'json_schema' },
    { type: 'manual', wallet: 'somebody' },
    { type: 'quorum', need: 0, members: [] },
    {},
  ];
  for (const rule of malformed) {
    const code = await refusal(posted(world, client, provider, { rule }));
    assert.equal(code, 'invalidInput', JSON.stringify(rule));
  }
});

for (const factory of stores) {
  test(`${factory.name}: frozen, expired and limited wallets cannot spend but still receive money`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    const set = (limits: Record<string, unknown>) =>
      world.call(world.admin, 'update_wallet', { wallet: client.wallet, limits });
    const freeze = (frozen: boolean) =>
      world.call(world.admin, 'update_wallet', { wallet: client.wallet, frozen });
    const funded = await posted(world, client, provider, { fund: true, repeat: true });
    const open = await posted(world, client, provider, { repeat: true });
    const fund = () => world.call(client, 'fund_work', { id: open.id });
    await freeze(true);
    assert.equal(await refusal(fund()), 'walletFrozen');
    assert.equal(await refusal(posted(world, client, provider, { repeat: true })), 'walletFrozen');
    const pay = () => world.call(client, 'send_payment', { to: provider.wallet, amount: '1.00' });
    assert.equal(await refusal(pay()), 'walletFrozen');
    await world.call(provider, 'submit_work', { id: funded.id, content: 'x' });
    await world.call(client, 'evaluate_work', { id: funded.id, verdict: 'reject', reason: 'no' });
    assert.equal(await world.balance(client), 10_000_000, 'a refund reaches a frozen wallet');
    await freeze(false);
    await set({ perTransaction: '0.99' });
    assert.equal(await refusal(fund()), 'txLimitExceeded');
    await set({ perTransaction: null, perDay: '1.50' });
    assert.equal(await refusal(fund()), 'dailyLimitExceeded', 'earlier funding counts');
    world.clock.jump(24 * hourMs - 1);
    await set({ perDay: null, allowlist: [client.wallet] });
    assert.equal(await refusal(pay()), 'notInAllowlist');
    await set({ allowlist: [], expiresAt: isoIn(world, 0) });
    assert.equal(await refusal(pay()), 'walletExpired');
    const own = world.call(client, 'update_wallet', { wallet: client.wallet, frozen: false });
    assert.equal(await refusal(own), 'forbidden', 'an agent cannot lift its own limits');
    const foreign = world.call(provider, 'get_wallet', { wallet: client.wallet });
    assert.equal(await refusal(foreign), 'walletNotFound');
    assert.deepEqual((await verifyBooks(world.store)).problems, []);
  });

  test(`${factory.name}: keys of other parties have no access in any stage`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    const stranger = await world.agent('stranger', '5.00');
    const job = await posted(world, client, provider, { visibility: 'private' });
    const tries: [string, Record<string, unknown>][] = [
      ['fund_work', {}],
      ['counter_work', { budget: '5' }],
      ['decline_work', {}],
      ['submit_work', { content: 'x' }],
      ['evaluate_work', { verdict: 'approve', reason: 'me' }],
      ['refund_work', {}],
      ['dispute_work', { reason: 'x' }],
      ['read_work', {}],
    ];
    const probe = async (who: Agent | undefined, expected: string) => {
      for (const [name, more] of tries.filter(([n]) => who || n === 'read_work')) {
        assert.equal(await refusal(world.call(who, name, { id: job.id, ...more })), expected, name);
      }
      assert.equal(await refusal(world.call(who, 'get_job', { id: job.id })), 'notFound');
    };
    for (const step of ['open', 'funded', 'submitted']) {
      if (step === 'funded') await world.call(client, 'fund_work', { id: job.id });
      if (step === 'submitted')
        await world.call(provider, 'submit_work', { id: job.id, content: 'y' });
      await probe(stranger, 'notFound');
      await probe(undefined, 'notFound');
      assert.equal((await world.call(provider, 'get_job', { id: job.id })).stage, step);
      const seen = await world.call(client, 'get_job', { id: job.id });
      assert.deepEqual(seen.yourRoles.includes('client'), true);
    }
    const read = await world.call(client, 'read_work', { id: job.id });
    assert.match(read.deliverable.content, /^<untrusted-[0-9a-f]+>[\s\S]*\ny\n<\/untrusted-/);
  });

  test(`${factory.name}: the same purchase is made once, even with many concurrent calls`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    const key = { idempotencyKey: 'order-1' };
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => posted(world, client, provider, { ...key, fund: true })),
    );
    assert.equal(new Set(answers.map(({ id }) => id)).size, 1);
    assert.equal(await world.balance(client), 9_000_000, 'funded once');
    const reworded = await posted(world, client, provider, { ...key, title: 'Other words' });
    assert.equal(reworded.id, answers[0].id, 'prose may differ in a retry');
    const other = posted(world, client, provider, { ...key, budget: '2000000' });
    assert.equal(await refusal(other), 'idempotencyConflict');
    const mixed = await Promise.allSettled([
      posted(world, client, provider, { idempotencyKey: 'order-2', budget: '3000000' }),
      posted(world, client, provider, { idempotencyKey: 'order-2', budget: '4000000' }),
    ]);
    assert.equal(mixed.filter(({ status }) => status === 'fulfilled').length, 1);

    const blind = await posted(world, client, provider, { budget: '5000000' });
    const retry = await posted(world, client, provider, { budget: '5000000' });
    assert.equal(retry.id, blind.id, 'recognised without any key');
    assert.equal(retry.existing, true);
    const keyed = { budget: '5000000', idempotencyKey: 'late key' };
    assert.notEqual((await posted(world, client, provider, keyed)).id, blind.id);
    const wanted = await posted(world, client, provider, { budget: '5000000', repeat: true });
    assert.notEqual(wanted.id, blind.id);
    await world.call(provider, 'decline_work', { id: blind.id });
    const after = await posted(world, client, provider, { budget: '5000000' });
    assert.notEqual(after.id, blind.id, 'a declined job does not block a new one');
    world.clock.jump(hourMs);
    const later = await posted(world, client, provider, { budget: '5000000' });
    assert.notEqual(later.id, after.id, 'the window has ended');
  });

  test(`${factory.name}: a payment is made once, and concurrent ones never overdraw`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    const pay = (more: Record<string, unknown>) =>
      world.call(client, 'send_payment', { to: provider.wallet, amount: '1.00', ...more });
    const once = await Promise.all(Array.from({ length: 8 }, () => pay({ idempotencyKey: 'p' })));
    assert.equal(new Set(once.map(({ id }) => id)).size, 1);
    assert.equal(await world.balance(client), 8_980_000);
    const conflict = pay({ idempotencyKey: 'p', amount: '2.00' });
    assert.equal(await refusal(conflict), 'idempotencyConflict');
    const many = await Promise.allSettled(Array.from({ length: 20 }, () => pay({ repeat: true })));
    assert.equal(many.filter(({ status }) => status === 'fulfilled').length, 8);
    assert.equal(await world.balance(client), 8_980_000 - 8 * 1_020_000);
    const minted = { wallet: client.wallet, amount: '1.00', transferId: 'again' };
    await Promise.all(
      Array.from({ length: 5 }, () => world.call(world.admin, 'mint_credit', minted)),
    );
    const clash = world.call(world.admin, 'mint_credit', { ...minted, amount: '2.00' });
    assert.equal(await refusal(clash), 'idempotencyConflict');
    const books = await verifyBooks(world.store);
    assert.deepEqual(books.problems, []);
    assert.equal(books.supply, '11000000');
  });

  test(`${factory.name}: while paused nothing starts or is paid, and refunds still work`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    const make = () => posted(world, client, provider, { fund: true, repeat: true });
    const [a, b, c] = [await make(), await make(), await make()];
    const open = await posted(world, client, provider, { repeat: true });
    await world.call(provider, 'submit_work', { id: b.id, content: 'x' });
    const silent = await posted(world, client, provider, { silence: 'release', fund: true });
    await world.call(provider, 'submit_work', { id: silent.id, content: 'x' });
    await world.call(world.admin, 'pause_escrow', { paused: true });
    const stopped = [
      () => posted(world, client, provider, { repeat: true }),
      () => world.call(client, 'fund_work', { id: open.id }),
      () => world.call(provider, 'submit_work', { id: a.id, content: 'y' }),
      () => world.call(client, 'evaluate_work', { id: b.id, verdict: 'approve', reason: 'z' }),
      () => world.call(client, 'send_payment', { to: provider.wallet, amount: '1.00' }),
    ];
    for (const one of stopped) assert.equal(await refusal(one()), 'escrowPaused');
    await world.call(client, 'evaluate_work', { id: b.id, verdict: 'reject', reason: 'no' });
    await world.call(provider, 'decline_work', { id: a.id });
    world.clock.jump(25 * hourMs);
    await world.services.sweeper.sweep();
    assert.equal((await world.call(client, 'get_job', { id: c.id })).stage, 'expired');
    assert.equal(await world.balance(client), 9_000_000);
    const pay = world.call(client, 'refund_work', { id: silent.id });
    assert.equal(await refusal(pay), 'escrowPaused', 'a default that pays waits');
    await world.call(world.admin, 'pause_escrow', { paused: false });
    await world.services.sweeper.sweep();
    assert.equal(await world.balance(provider), 930_000, 'and pays after the pause');
  });

  test(`${factory.name}: verify detects a changed entry, a changed balance and a moved escrow`, async (t) => {
    const world = await createWorld(t, { factory });
    const { client, provider } = await pair(world);
    await posted(world, client, provider, { fund: true });
    const sound = await verifyBooks(world.store);
    assert.deepEqual(sound.problems, []);
    assert.equal(sound.escrowed, '1000000');
    const change = (sql: string) => world.store.commit([{ sql }]);
    await assert.rejects(change('UPDATE escrow_entries SET amount = amount + 1'), /append-only/);
    await assert.rejects(change('DELETE FROM escrow_entries'), /append-only/);
    await change(`UPDATE escrow_accounts SET balance = balance + 1 WHERE id = '${client.wallet}'`);
    const forged = await verifyBooks(world.store);
    assert.equal(forged.ok, false);
    assert.match(forged.problems.join('\n'), /its entries sum to 9000000/);
    assert.match(forged.problems.join('\n'), /all balances sum to 1/);
    await change(`UPDATE escrow_accounts SET balance = balance - 1 WHERE id = '${client.wallet}'`);
    await change('UPDATE escrow_work SET held = held - 1');
    assert.match(
      (await verifyBooks(world.store)).problems.join(),
      /holds 1000000 instead of 999999/,
    );
  });
}
