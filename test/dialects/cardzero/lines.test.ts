// The first eleven of the twenty behaviours of CardZero jobs, one numbered test each, against the real server over HTTP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak256 } from '../../../src/runtime/keccak.ts';
import { until } from '../../helpers/until.ts';
import { jobOf } from './market.ts';
import { delivery, openTrade } from './trade.ts';

test('lines 1 to 11', async (t) => {
  const trade = await openTrade(t);
  const {
    call,
    operator,
    receiver,
    client,
    provider,
    judge,
    manual,
    words,
    site,
    create,
    funded,
    submitted,
    brief,
    act,
    as,
    stage,
    balance,
  } = trade;

  await t.test(
    'line 1: a created job is open, has a metadata hash and moved no money',
    async () => {
      const made = await call(client, 'POST', '/jobs', jobOf(provider));
      assert.equal(made.status, 201, made.text);
      assert.deepEqual(Object.keys(made.body), [
        'jobId',
        'onchainJobId',
        'metadataHash',
        'createTxHash',
      ]);
      assert.match(made.body.metadataHash, /^0x[0-9a-f]{64}$/);
      assert.equal(await stage(made.body.jobId), 'open');
      assert.equal(await balance(client), '90.00');
    },
  );

  await t.test('line 2: invalid jobs are refused with their code', async () => {
    const pending = (await call(undefined, 'POST', '/wallets', { name: 'nobody' })).body;
    const wrong: [string, Record<string, unknown>][] = [
      ['INVALID_ADDRESS', { providerAddress: 'bob' }],
      ['INVALID_BUDGET', { budgetUsdc: '0' }],
      ['INVALID_BUDGET', { budgetUsdc: '-1' }],
      ['INVALID_BUDGET', { budgetUsdc: '0.5' }],
      ['SOFT_START_CAP', { budgetUsdc: String(2n ** 64n) }],
      ['EXPIRY_TOO_SHORT', { expiredAt: Math.floor(Date.now() / 1000) + 80_000 }],
      ['INVALID_TITLE', { title: 'x'.repeat(201) }],
      ['INVALID_DESCRIPTION', { description: 'x'.repeat(2001) }],
      ['INVALID_EVALUATOR_RULE', { evaluatorRule: { type: 'vibes' } }],
      ['INVALID_EVALUATOR_RULE', { evaluatorRule: { type: 'http_check' } }],
      ['SELF_JOB', { providerAddress: client.address }],
      ['SELF_JOB', { evaluatorRule: { type: 'manual', wallet: provider.id } }],
      ['WALLET_NOT_ACTIVE', { providerAddress: pending.chainAddress }],
    ];
    for (const [code, more] of wrong) {
      const request = jobOf(provider, { idempotencyKey: trade.nextKey(), ...more });
      const answer = await call(client, 'POST', '/jobs', request);
      assert.equal(answer.body.error, code, `${JSON.stringify(more)}: ${answer.text}`);
    }
    await call(operator, 'POST', `/wallets/${client.id}/freeze`);
    const request = jobOf(provider, { idempotencyKey: 'frozen' });
    const frozen = await call(client, 'POST', '/jobs', request);
    await call(operator, 'POST', `/wallets/${client.id}/unfreeze`);
    assert.equal(frozen.body.error, 'WALLET_FROZEN', frozen.text);
  });

  await t.test(
    'line 3: one key is one job, even with concurrent calls and other texts',
    async () => {
      const request = jobOf(provider, { idempotencyKey: 'line 3' });
      const many = await Promise.all(
        Array.from({ length: 6 }, () => call(client, 'POST', '/jobs', request)),
      );
      assert.equal(new Set(many.map(({ body }) => body.jobId)).size, 1);
      const other = await call(client, 'POST', '/jobs', { ...request, budgetUsdc: '2000000' });
      assert.equal(other.body.error, 'IDEMPOTENCY_CONFLICT');
    },
  );

  await t.test('line 4: the spec is public, matches its hash and never changes', async () => {
    const id = await create();
    const read = () => call(undefined, 'GET', `/jobs/${id}/spec`);
    const before = await read();
    const { body } = await call(undefined, 'GET', `/jobs/${id}`);
    assert.equal(keccak256(before.text), body.metadata_hash);
    await act(client, id, 'fund');
    await act(provider, id, 'submit', delivery('x'));
    assert.equal((await read()).text, before.text);
  });

  await t.test('line 5: the client funds once, from open, with its own balance', async () => {
    const id = await create();
    const before = Number(await balance(client));
    assert.equal((await act(provider, id, 'fund')).body.error, 'NOT_CLIENT');
    const [one, two] = await Promise.all([act(client, id, 'fund'), act(client, id, 'fund')]);
    assert.deepEqual([one.body.status, two.body.status], ['funded', 'funded']);
    assert.equal(Number(await balance(client)), before - 1);
    const dear = await create({ budgetUsdc: '99000000' });
    assert.equal((await act(client, dear, 'fund')).body.error, 'INSUFFICIENT_BALANCE');
    await call(operator, 'PATCH', `/wallets/${client.id}/config`, { txLimit: '0.5' });
    const limited = await create();
    assert.equal((await act(client, limited, 'fund')).body.error, 'TX_LIMIT_EXCEEDED');
    await call(operator, 'PATCH', `/wallets/${client.id}/config`, { txLimit: '0' });
    assert.equal(Number(await balance(client)), before - 1, 'all or nothing');
  });

  await t.test(
    'line 6: the parties receive events of their jobs, regardless of the owner',
    async () => {
      for (const [who, name] of [
        [provider, 'provider'],
        [client, 'client'],
        [judge, 'judge'],
      ] as const) {
        const set = await call(who, 'POST', `/wallets/${who.id}/webhook`, {
          url: `${receiver.url}/${name}`,
        });
        assert.equal(set.status, 201, set.text);
        assert.match(set.body.secret, /^whsec_/);
      }
      const id = await submitted({ evaluatorRule: manual });
      const verdict = { verdict: 'approve', reason: 'good' };
      assert.equal((await as(judge, id, 'evaluate', verdict)).status, 200);
      const heardBy = (name: string) =>
        receiver.heard
          .filter(({ path, body }) => path === `/${name}` && body.jobId === id)
          .map(({ body }) => body.type as string);
      const all = ['job_created', 'job_funded', 'job_submitted', 'job_completed'];
      await until('everybody has heard', () =>
        ['provider', 'client', 'judge'].every((name) => heardBy(name).length === all.length),
      );
      for (const name of ['provider', 'client', 'judge']) {
        assert.deepEqual(heardBy(name).toSorted(), all.toSorted());
      }
    },
  );

  await t.test(
    'line 7: the provider submits once the job is funded, with a hash, in time',
    async () => {
      const id = await create();
      assert.equal((await act(provider, id, 'submit', delivery('x'))).body.error, 'INVALID_STATUS');
      await act(client, id, 'fund');
      assert.equal((await act(client, id, 'submit', delivery('x'))).body.error, 'NOT_PROVIDER');
      const bad = await act(provider, id, 'submit', { contentHash: '0xabc' });
      assert.equal(bad.body.error, 'INVALID_HASH');
      const uri = { ...delivery('x'), contentURI: 'https://example.com/x' };
      assert.equal((await act(provider, id, 'submit', uri)).body.status, 'submitted');
      const late = await brief(300);
      await until('it is too late', async () => (await stage(late)) === 'expired');
      assert.equal(
        (await act(provider, late, 'submit', delivery('x'))).body.error,
        'INVALID_STATUS',
      );
    },
  );

  await t.test('line 8: automatic rules decide immediately, people decide later', async () => {
    const rule = { type: 'json_schema', schema: { type: 'object', required: ['words'] } };
    const at = { contentURI: site.url };
    const byRule = await funded({ evaluatorRule: rule });
    await act(provider, byRule, 'submit', { ...delivery(words), ...at });
    const check = await funded({ evaluatorRule: { type: 'http_check', url: site.url } });
    await act(provider, check, 'submit', delivery('x'));
    const person = await submitted({ evaluatorRule: manual });
    for (const id of [byRule, check]) {
      await until('the rule has decided', async () => (await stage(id)) === 'completed');
    }
    const { body } = await call(undefined, 'GET', `/jobs/${check}`);
    assert.equal(body.evaluation_outcome, 'approved');
    assert.match(body.evaluation_reason, /http_check: 200/);
    assert.equal(body.evaluated_by, 'cardzero_auto');
    assert.ok(Date.parse(body.evaluated_at));
    assert.equal(await stage(person), 'submitted');
  });

  await t.test(
    'line 9: 93/5/2 exactly when completed, otherwise everything is refunded',
    async () => {
      const before = [await balance(client), await balance(provider), await balance(judge)];
      const good = await submitted({ evaluatorRule: manual, budgetUsdc: '1000003' });
      await as(judge, good, 'evaluate', { verdict: 'approve', reason: 'good' });
      const bad = await submitted({ evaluatorRule: manual });
      await as(judge, bad, 'evaluate', { verdict: 'reject', reason: 'bad' });
      const after = [await balance(client), await balance(provider), await balance(judge)];
      const micro = (text: string) => Math.round(Number(text) * 1_000_000);
      const moved = after.map((text, i) => micro(text) - micro(before[i]));
      assert.deepEqual(moved, [-1_000_003, 930_003, 50_000]);
    },
  );

  await t.test(
    'line 10: refunds only after expiry, and one winner against an approval',
    async () => {
      const early = await funded();
      assert.equal((await act(client, early, 'refund')).body.error, 'NOT_YET_EXPIRED');
      const late = await brief(400);
      await until('it is over', async () => (await stage(late)) === 'expired');
      const refund = await act(client, late, 'refund');
      assert.equal(refund.body.status, 'expired');
      assert.ok(refund.body.refundTxHash);
      const raced = await submitted({ evaluatorRule: manual });
      const verdicts = ['approve', 'reject'].map((verdict) =>
        as(judge, raced, 'evaluate', { verdict, reason: 'race' }),
      );
      const codes = (await Promise.all(verdicts)).map(({ status }) => status);
      assert.deepEqual(new Set(codes), new Set([200, 409]));
    },
  );

  await t.test('line 11: the provider declines, the client withdraws', async () => {
    for (const who of [provider, client]) {
      const id = await create();
      assert.equal((await as(who, id, 'decline', {})).status, 200);
      assert.equal(await stage(id), 'rejected');
    }
  });
});
