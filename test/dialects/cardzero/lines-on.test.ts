// The last nine of the twenty behaviours of CardZero jobs, one numbered test each, against the real server over HTTP.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { until } from '../../helpers/until.ts';
import { jobOf, type Json, type Party } from './market.ts';
import { delivery, openTrade } from './trade.ts';

test('lines 12 to 20', async (t) => {
  const trade = await openTrade(t);
  const {
    call,
    api,
    operator,
    receiver,
    client,
    provider,
    judge,
    manual,
    create,
    funded,
    submitted,
    act,
    as,
    stage,
    balance,
  } = trade;

  await t.test('line 12: a job is public by its id, with all its transactions', async () => {
    const id = await submitted({ evaluatorRule: manual });
    await as(judge, id, 'evaluate', { verdict: 'approve', reason: 'good' });
    const { body } = await call(undefined, 'GET', `/jobs/${id}`);
    assert.deepEqual(
      [body.status, body.budget_usdc, body.evaluation_outcome],
      ['completed', '1000000', 'approved'],
    );
    for (const name of ['create', 'fund', 'submit', 'finalize']) {
      assert.ok(body[`${name}_tx_hash`], name);
    }
    const unknown = await call(undefined, 'GET', '/jobs/job_zzzzzzzzzzzzzzzz');
    assert.deepEqual([unknown.status, unknown.body.error], [404, 'JOB_NOT_FOUND']);
  });

  await t.test('line 13: jobs are listed by wallet and role, in pages', async () => {
    for (let n = 0; n < 11; n++) await create();
    const list = (query: string) =>
      call(provider, 'GET', `/jobs/by-wallet/${provider.id}?role=provider&${query}`);
    const first = (await list('pageSize=5')).body;
    const second = (await list('pageSize=5&page=2')).body;
    assert.deepEqual([first.page, first.pageSize, first.jobs.length], [1, 5, 5]);
    const ids = [...first.jobs, ...second.jobs].map(({ id }: Json) => id as string);
    assert.equal(new Set(ids).size, 10);
    assert.ok(first.total > 10);
    const foreign = await call(client, 'GET', `/jobs/by-wallet/${provider.id}`);
    assert.ok(foreign.status >= 403, 'only your own');
  });

  await t.test('line 14: webhooks are signed, rotated, retried and stored', async () => {
    const url = `${receiver.url}/provider`;
    await call(provider, 'POST', `/wallets/${provider.id}/webhook`, { url });
    const created = await create();
    await until('the webhook arrived', () =>
      receiver.heard.some(({ body }) => body.jobId === created),
    );
    const secretPath = `/wallets/${provider.id}/webhook-secret`;
    const { secret } = (await call(provider, 'GET', secretPath)).body;
    const own = receiver.heard.filter(({ path }) => path === '/provider');
    for (const { headers, raw, body } of own) {
      const mac = createHmac('sha256', secret).update(raw).digest('hex');
      assert.equal(headers['x-cardzero-signature'], `sha256=${mac}`);
      assert.equal(headers['x-cardzero-event'], body.type);
      assert.equal(headers['user-agent'], 'CardZero-Webhook/1.0');
      assert.ok(headers['webhook-id'], 'each delivery has an id');
      assert.equal(body.walletAddress, provider.address);
    }
    const rotated = (await call(provider, 'POST', `${secretPath}/rotate`)).body.secret;
    assert.notEqual(rotated, secret);
    receiver.state.refuse = 1;
    const id = await create();
    const heard = await until('the second try came', () =>
      receiver.heard.find(({ path, body }) => path === '/provider' && body.jobId === id),
    );
    const mac = createHmac('sha256', rotated).update(heard.raw).digest('hex');
    assert.equal(heard.headers['x-cardzero-signature'], `sha256=${mac}`);
    const none = await trade.party('silent');
    const missing = await call(none, 'GET', `/wallets/${none.id}/webhook-secret`);
    assert.equal(missing.body.error, 'WEBHOOK_NO_SECRET');
  });

  await t.test(
    'line 15: wallets are claimed, limited, renamed, frozen and get new keys; payments',
    async () => {
      const opened = (await call(undefined, 'POST', '/wallets', { name: 'new' })).body;
      assert.equal(opened.status, 'pending');
      const claim = () => call(operator, 'POST', '/auth/claim', { claimKey: opened.claimKey });
      const first = (await claim()).body.agentConfig.apiKey;
      const again = await claim();
      assert.equal(again.status, 201, 'claimed again after a lost response');
      const wallet = { id: opened.id, address: opened.chainAddress, key: '' };
      wallet.key = again.body.agentConfig.apiKey;
      const dead = await call({ ...wallet, key: first }, 'GET', `/wallets/${wallet.id}`);
      assert.equal(dead.body.error, 'INVALID_API_KEY', 'the lost key is revoked');
      await api('POST', '/api/escrow/mint', {
        wallet: wallet.id,
        amount: '10',
        transferId: 'line 15',
      });
      const config = {
        txLimit: '2',
        dailyLimit: '5',
        whitelist: [client.id],
        expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
      };
      const limited = await call(operator, 'PATCH', `/wallets/${wallet.id}/config`, config);
      assert.deepEqual([limited.body.txLimit, limited.body.whitelist], ['2.00', [client.id]]);
      const named = await call(operator, 'PATCH', `/wallets/${wallet.id}/name`, { name: 'shop' });
      assert.equal(named.body.name, 'shop');
      const pay = (to: Party, amount: string, key: string) =>
        call(wallet, 'POST', '/payments', { to: to.id, amount, idempotencyKey: key });
      assert.equal((await pay(provider, '1', 'a')).body.error, 'NOT_IN_WHITELIST');
      assert.equal((await pay(client, '3', 'b')).body.error, 'TX_LIMIT_EXCEEDED');
      const paid = await pay(client, '1.50', 'c');
      assert.deepEqual([paid.status, paid.body.feeAmount], [201, '0.03']);
      assert.equal((await pay(client, '1.50', 'c')).body.paymentId, paid.body.paymentId);
      const used = await claim();
      assert.equal(used.body.error, 'CLAIM_KEY_INVALID', 'the wallet is in use');
      const x402 = await call(wallet, 'POST', '/x402/pay', {
        url: 'https://example.com/paid',
        maxAmount: '0.10',
        recipient: client.id,
      });
      assert.ok(x402.body.paymentHeader, x402.text);
      const list = await call(wallet, 'GET', `/wallets/${wallet.id}/payments`);
      assert.equal(list.body.payments.length, 2);
      const one = await call(undefined, 'GET', `/payments/${paid.body.paymentId}`);
      assert.equal(one.body.amount, '1.50');
      const rotated = await call(operator, 'POST', `/wallets/${wallet.id}/api-key/rotate`);
      const old = await call(wallet, 'GET', `/wallets/${wallet.id}`);
      assert.equal(old.body.error, 'INVALID_API_KEY');
      wallet.key = rotated.body.apiKey;
      assert.equal((await call(wallet, 'GET', `/wallets/${wallet.id}`)).status, 200);
    },
  );

  await t.test('line 16: reputation is public and counts each ended job once', async () => {
    const bad = await submitted({ evaluatorRule: manual });
    await as(judge, bad, 'evaluate', { verdict: 'reject', reason: 'bad' });
    const { body } = await call(undefined, 'GET', `/reputation/${provider.address}`);
    const events = (await call(undefined, 'GET', `/reputation/${provider.address}/events`)).body;
    const ids = events.events.map((event: Json) => event.source);
    assert.equal(new Set(ids).size, ids.length);
    const count = (type: string) =>
      events.events.filter((event: Json) => event.type === type).length as number;
    // One counterparty counts for at most 10 and -3.
    assert.equal(body.score.success, Math.min(5 * count('job_completed'), 10));
    assert.equal(body.score.failure, -3);
    assert.ok(count('job_rejected') > 0);
  });

  await t.test('line 17: of two concurrent transitions one wins', async () => {
    const id = await funded();
    const [submit, decline] = await Promise.all([
      act(provider, id, 'submit', delivery('x')),
      as(provider, id, 'decline', {}),
    ]);
    // A decline is possible after a delivery as well, but both must never start from the same state.
    const end = await stage(id);
    const codes = [submit.status, decline.status];
    assert.ok(codes.includes(200), codes.join());
    assert.equal(end, decline.status === 200 ? 'rejected' : 'submitted');
  });

  await t.test('line 18: headers report rate limits and how long to wait', async () => {
    const busy = await trade.party('busy', '1');
    const ask = () => call(busy, 'POST', '/payments', { to: client.id, amount: 'nothing' });
    const first = await ask();
    assert.equal(first.headers.get('ratelimit-policy'), '60;w=60');
    assert.equal(first.headers.get('ratelimit-limit'), '60');
    assert.equal(first.headers.get('ratelimit-remaining'), '59');
    assert.ok(Number(first.headers.get('ratelimit-reset')) <= 60);
    const rest = await Promise.all(Array.from({ length: 60 }, ask));
    const refused = rest.filter(({ status }) => status === 429);
    assert.equal(refused.length, 1);
    assert.equal(refused[0]!.body.error, 'RATE_LIMITED');
    assert.ok(Number(refused[0]!.headers.get('retry-after')) > 0);
    assert.equal((await call(busy, 'GET', `/wallets/${busy.id}/balance`)).status, 200);
  });

  await t.test('line 19: a pause stops payouts, never refunds', async () => {
    const other = await trade.party('patient', '20.00');
    const make = async (title: string) => {
      const made = await call(other, 'POST', '/jobs', jobOf(provider, { idempotencyKey: title }));
      return made.body.jobId as string;
    };
    const [open, fundedId, delivered] = [await make('a'), await make('b'), await make('c')];
    await act(other, fundedId, 'fund');
    await act(other, delivered, 'fund');
    await act(provider, delivered, 'submit', delivery('x'));
    await api('PUT', '/api/escrow/pause', { paused: true });
    const stopped = [
      await call(other, 'POST', '/jobs', jobOf(provider, { idempotencyKey: 'd' })),
      await act(other, open, 'fund'),
      await act(provider, fundedId, 'submit', delivery('y')),
    ];
    for (const { body } of stopped) assert.equal(body.error, 'PAUSED');
    const approve = { verdict: 'approve', reason: 'x' };
    assert.equal((await as(other, delivered, 'evaluate', approve)).status, 503);
    const reject = { verdict: 'reject', reason: 'x' };
    assert.equal((await as(other, delivered, 'evaluate', reject)).status, 200);
    assert.equal((await as(provider, fundedId, 'decline', {})).status, 200);
    assert.equal(await balance(other), '20.00');
    await api('PUT', '/api/escrow/pause', { paused: false });
  });

  await t.test('line 20: health reports backlog, settlements and stuck deliveries', async () => {
    await submitted({ evaluatorRule: manual });
    const health = await until('the alarm', async () => {
      const found = await api('GET', '/api/escrow/health');
      return found.stuck > 0 ? found : undefined;
    });
    assert.equal(health.ok, false, 'a delivery has waited too long');
    assert.deepEqual([health.paused, health.settlements.ledger], [false, 'ok']);
    assert.equal(typeof health.backlog, 'number');
    assert.equal((await api('GET', '/api/escrow/verify')).ok, true);
  });
});
