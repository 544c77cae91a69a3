// CardZero's API and tools against the real server, over HTTP and MCP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { keccak256 } from '../../../src/runtime/keccak.ts';
import { bin, serverEnv } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { jobOf, openMarket, page, type Json } from './market.ts';

test('jobs over HTTP: create, fund, submit, automatic verdict, public state', async (t) => {
  let body = '{"words":12}';
  const site = await page(t, () => ({ status: 200, body }));
  const market = await openMarket(t, [site.host]);
  const { call } = market;
  const client = await market.party('client', '50.00');
  const provider = await market.party('provider', undefined, 'another-owner');
  const schema = {
    type: 'object',
    required: ['words'],
    properties: { words: { type: 'integer' } },
  };
  const rule = { type: 'json_schema', schema };

  const key = { idempotencyKey: 'hire-1' };
  const created = await call(
    client,
    'POST',
    '/jobs',
    jobOf(provider, { evaluatorRule: rule, ...key }),
  );
  assert.equal(created.status, 201, created.text);
  const { jobId, metadataHash } = created.body;
  assert.match(jobId, /^job_/);
  const again = await call(
    client,
    'POST',
    '/jobs',
    jobOf(provider, { evaluatorRule: rule, ...key }),
  );
  assert.equal(again.body.jobId, jobId, 'the same key returns the same job');

  const spec = await call(undefined, 'GET', `/jobs/${jobId}/spec`);
  assert.equal(keccak256(spec.text), metadataHash, 'the exact bytes match the hash');
  assert.equal(spec.body.version, '1.0');

  assert.equal((await call(provider, 'POST', `/jobs/${jobId}/fund`)).body.error, 'NOT_CLIENT');
  assert.equal((await call(undefined, 'POST', `/jobs/${jobId}/fund`)).body.error, 'UNAUTHORIZED');
  const funded = await call(client, 'POST', `/jobs/${jobId}/fund`);
  assert.equal(funded.body.status, 'funded');
  assert.ok(funded.body.fundTxHash);
  const balance = await call(client, 'GET', `/wallets/${client.id}/balance`);
  assert.deepEqual(balance.body, { walletId: client.id, balance: '49.00', currency: 'CREDIT' });

  const submission = { contentHash: keccak256(body), contentURI: site.url };
  assert.equal(
    (await call(client, 'POST', `/jobs/${jobId}/submit`, submission)).body.error,
    'NOT_PROVIDER',
  );
  const bad = await call(provider, 'POST', `/jobs/${jobId}/submit`, { contentHash: '0x12' });
  assert.equal(bad.body.error, 'INVALID_HASH');
  const submitted = await call(provider, 'POST', `/jobs/${jobId}/submit`, submission);
  assert.equal(submitted.status, 200, submitted.text);

  const done = await until('the rule has decided', async () => {
    const { body: row } = await call(undefined, 'GET', `/jobs/${jobId}`);
    return row.status === 'completed' ? row : undefined;
  });
  assert.equal(done.evaluation_outcome, 'approved');
  assert.equal(done.evaluated_by, 'cardzero_auto');
  assert.equal(done.provider_address, provider.address);
  assert.equal(done.deliverable_uri, null, 'hidden from strangers');
  assert.equal(done.metadata_hash, metadataHash);
  for (const name of ['create', 'fund', 'submit', 'finalize']) assert.ok(done[`${name}_tx_hash`]);
  const earned = await call(provider, 'GET', `/wallets/${provider.id}/balance`);
  assert.equal(earned.body.balance, '0.93');

  const second = await call(
    client,
    'POST',
    '/jobs',
    jobOf(provider, { evaluatorRule: rule, idempotencyKey: 'hire-2' }),
  );
  body = '{"words":"many"}';
  const id = second.body.jobId;
  await call(client, 'POST', `/jobs/${id}/fund`);
  await call(provider, 'POST', `/jobs/${id}/submit`, {
    contentHash: keccak256(body),
    contentURI: site.url,
  });
  const rejected = await until('the rule has decided', async () => {
    const { body: row } = await call(client, 'GET', `/jobs/${id}`);
    return row.status === 'rejected' ? row : undefined;
  });
  assert.match(rejected.evaluation_reason, /json_schema: “\/words/);

  const catalog = await call(undefined, 'GET', '/catalog');
  assert.equal(catalog.status, 200, catalog.text);
  const paths = catalog.body.services.map((one: { path: string }) => one.path);
  assert.ok(paths.includes('/cardzero/v1/jobs') && paths.includes('/cardzero/v1/wallets'));
  assert.equal(catalog.body.tools.length, 10);
  const card = await call(undefined, 'GET', `/.well-known/agent/${provider.address}`);
  assert.equal(card.body.agentId, provider.id);
  assert.equal(
    (await call(undefined, 'GET', '/.well-known/agent/wal_0000000000000000')).status,
    404,
  );

  const mine = await call(client, 'GET', `/jobs/by-wallet/${client.id}?role=client&pageSize=1`);
  assert.equal(mine.body.total, 2);
  assert.equal(mine.body.jobs[0].id, id);
  assert.equal(mine.body.jobs[0].provider_address, provider.address);
  const listed = await call(undefined, 'GET', `/jobs/${id}`);
  assert.equal(mine.body.jobs[0].metadata_hash, listed.body.metadata_hash);
  const reputation = await call(undefined, 'GET', `/reputation/${provider.address}`);
  assert.deepEqual(reputation.body.score, { total: 2, success: 5, failure: -3 });
  const events = await call(undefined, 'GET', `/reputation/${provider.address}/events`);
  assert.deepEqual(events.body.events.map((e: Json) => e.type).toSorted(), [
    'job_completed',
    'job_rejected',
  ]);
  const verified = await market.server.cli('escrow', 'verify', '--json');
  assert.equal(verified.json<{ ok: boolean }>().ok, true, verified.stdout);
});

test('refusals carry the codes that CardZero callers know', async (t) => {
  const market = await openMarket(t);
  const { call } = market;
  const client = await market.party('client', '200.00');
  const provider = await market.party('provider');
  const wrong: [string, Record<string, unknown>][] = [
    ['INVALID_ADDRESS', { providerAddress: '0x12' }],
    ['WALLET_NOT_FOUND', { providerAddress: `0x${'1'.repeat(40)}` }],
    ['INVALID_BUDGET', { budgetUsdc: '0' }],
    ['INVALID_BUDGET', { budgetUsdc: '-5' }],
    ['INVALID_BUDGET', { budgetUsdc: '1.5' }],
    ['INVALID_BUDGET', { budgetUsdc: '1e6' }],
    ['SOFT_START_CAP', { budgetUsdc: String(2n ** 63n) }],
    ['SOFT_START_CAP', { budgetUsdc: '100000001' }],
    ['EXPIRY_TOO_SHORT', { expiredAt: Math.floor(Date.now() / 1000) + 3600 }],
    ['MISSING_EXPIRED_AT', { expiredAt: undefined }],
    ['INVALID_EXPIRY', { expiredAt: 'tomorrow' }],
    ['INVALID_EXPIRY', { expiredAt: Date.now() + 2 * 86_400_000 }],
    ['INVALID_REQUEST', { idempotencyKey: 7 }],
    ['INVALID_TITLE', { title: 'x'.repeat(201) }],
    ['INVALID_DESCRIPTION', { description: 'x'.repeat(2001) }],
    ['INVALID_EVALUATOR_RULE', { evaluatorRule: { type: 'oracle' } }],
    ['INVALID_EVALUATOR_RULE', { evaluatorRule: { type: 'http_check' } }],
    [
      'INVALID_EVALUATOR_RULE',
      { evaluatorRule: { type: 'http_check', url: 'http://127.0.0.1/x' } },
    ],
    ['INVALID_EVALUATOR_RULE', { evaluatorRule: { type: 'json_schema', schema: { type: 5 } } }],
    ['SELF_JOB', { providerAddress: client.address }],
    ['SELF_JOB', { evaluatorRule: { type: 'manual', wallet: provider.address } }],
  ];
  for (const [code, more] of wrong) {
    const answer = await call(client, 'POST', '/jobs', jobOf(provider, more));
    assert.equal(answer.body.error, code, `${JSON.stringify(more)}: ${answer.text}`);
    assert.equal(typeof answer.body.message, 'string');
    const [field] = Object.keys(more) as [string];
    if (code.startsWith('INVALID')) assert.match(answer.body.message, new RegExp(named(field)));
  }
  const odd: [string, string, string, number][] = [
    ['GET', '/nothing', 'NOT_FOUND', 404],
    ['DELETE', '/jobs/job_0000000000000000', 'METHOD_NOT_ALLOWED', 405],
    ['GET', `/jobs/by-wallet/${client.id}?role=judge`, 'INVALID_ROLE', 400],
  ];
  for (const [method, where, code, status] of odd) {
    const answer = await call(client, method, where);
    assert.deepEqual([answer.body.error, answer.status], [code, status], answer.text);
    assert.deepEqual(Object.keys(answer.body), ['error', 'message']);
  }
  assert.equal((await call(undefined, 'GET', '/jobs/job_0000000000000000')).status, 404);
  const made = await call(client, 'POST', '/jobs', jobOf(provider));
  const path = `/jobs/${made.body.jobId}`;
  assert.equal((await call(client, 'POST', `${path}/refund`)).body.error, 'NOT_YET_EXPIRED');
  assert.equal(
    (await call(provider, 'POST', `${path}/submit`, { contentHash: keccak256('x') })).body.error,
    'INVALID_STATUS',
  );
  const owner = market.operator;
  const stopAll = await call(owner, 'POST', `/wallets/${client.id}/freeze`);
  assert.equal(stopAll.body.status, 'frozen');
  assert.equal((await call(client, 'POST', `${path}/fund`)).body.error, 'WALLET_FROZEN');
  await call(owner, 'POST', `/wallets/${client.id}/unfreeze`);
  const limit = { txLimit: '0.50' };
  await call(owner, 'PATCH', `/wallets/${client.id}/config`, limit);
  assert.equal((await call(client, 'POST', `${path}/fund`)).body.error, 'TX_LIMIT_EXCEEDED');
  await call(owner, 'PATCH', `/wallets/${client.id}/config`, { txLimit: '0' });
  assert.equal((await call(client, 'POST', `${path}/fund`)).body.status, 'funded');
  const rotated = await call(owner, 'POST', `/wallets/${client.id}/api-key/rotate`);
  const renewed = { ...client, key: rotated.body.apiKey };
  assert.equal((await call(renewed, 'GET', `/wallets/${client.id}`)).status, 200);
});

/** The name by which a message refers to a field; address checks name the address. */
const named = (field: string): string =>
  field === 'evaluatorRule' ? 'evaluatorRule|check|Schema' : field;

test('payments and x402 over HTTP: a fee on top, once per key, public by id', async (t) => {
  const market = await openMarket(t);
  const { call } = market;
  const payer = await market.party('payer', '10.00');
  const payee = await market.party('payee');
  const order = { to: payee.address, amount: '2.50', memo: 'thanks', idempotencyKey: 'order-7' };
  const paid = await call(payer, 'POST', '/payments', order);
  assert.equal(paid.status, 201, paid.text);
  assert.equal(paid.body.feeAmount, '0.05');
  assert.equal(paid.body.remainingBalance, '7.45');
  const retried = await call(payer, 'POST', '/payments', order);
  assert.equal(retried.body.paymentId, paid.body.paymentId);
  const other = await call(payer, 'POST', '/payments', { ...order, amount: '3.00' });
  assert.equal(other.body.error, 'IDEMPOTENCY_CONFLICT');
  const open = await call(undefined, 'GET', `/payments/${paid.body.paymentId}`);
  assert.equal(open.body.status, 'confirmed');
  assert.equal(open.body.memo, undefined, 'only the two parties see the memo');
  const list = await call(payee, 'GET', `/wallets/${payee.id}/payments?limit=5`);
  assert.equal(list.body.payments.length, 1);
  const header = await call(payer, 'POST', '/x402/pay', {
    url: 'https://example.com/data',
    maxAmount: '1.00',
    recipient: payee.id,
  });
  assert.equal(header.status, 200, header.text);
  assert.ok(header.body.paymentHeader);
  const chain = {
    url: 'https://example.com',
    maxAmount: '1',
    recipient: payee.id,
    network: 'solana',
  };
  assert.equal((await call(payer, 'POST', '/x402/pay', chain)).body.error, 'UNSUPPORTED_NETWORK');
  const gold = { ...chain, network: 'eip155:8453', asset: 'GOLD' };
  assert.equal((await call(payer, 'POST', '/x402/pay', gold)).body.error, 'UNSUPPORTED_ASSET');
  const poor = { to: payee.id, amount: '1000.00' };
  assert.equal((await call(payer, 'POST', '/payments', poor)).body.error, 'INSUFFICIENT_BALANCE');
});

test('the ten tools over stdio, with their names, parameters and error format', async (t) => {
  const market = await openMarket(t);
  const client = await market.party('client', '5.00');
  const provider = await market.party('provider');
  const { home } = market.server;
  const bridge = (wallet: string) =>
    new StdioClientTransport({
      command: process.execPath,
      args: [bin, 'mcp', '--dialect', 'cardzero'],
      env: serverEnv(home, { CARDZERO_WALLET_ID: wallet }) as Record<string, string>,
    });
  const mcp = new Client({ name: 'test', version: '1' });
  t.after(() => mcp.close());
  await mcp.connect(bridge(client.id));
  const { tools } = await mcp.listTools();
  const parameters = Object.fromEntries(
    tools.map(({ name, inputSchema }) => [name, Object.keys(inputSchema.properties ?? {})]),
  );
  assert.deepEqual(parameters, {
    create_wallet: ['name'],
    get_balance: [],
    send_payment: ['to', 'amount', 'memo', 'idempotencyKey'],
    list_payments: ['limit', 'offset'],
    pay_x402: ['url', 'maxAmount', 'recipient', 'network', 'asset', 'idempotencyKey'],
    get_payment: ['paymentId'],
    create_job: [
      'providerAddress',
      'budgetUsdc',
      'expiredAt',
      'title',
      'description',
      'evaluatorRule',
      'idempotencyKey',
    ],
    fund_job: ['jobId'],
    submit_job: ['jobId', 'contentHash', 'contentURI'],
    get_job: ['jobId'],
  });
  const call = async (name: string, input: Record<string, unknown> = {}) => {
    const answer = await mcp.callTool({ name, arguments: input });
    const [content] = answer.content as { text: string }[];
    return { text: content!.text, isError: answer.isError ?? false };
  };
  const json = async (name: string, input: Record<string, unknown> = {}): Promise<Json> => {
    const { text, isError } = await call(name, input);
    assert.equal(isError, false, text);
    return JSON.parse(text);
  };
  const opened = await json('create_wallet', { name: 'third' });
  assert.match(opened.claimKey, /^czk_/);
  assert.equal((await json('get_balance')).balance, '5.00');
  const order = { to: provider.address, amount: '0.50', memo: 'hello', idempotencyKey: 'one' };
  const paid = await json('send_payment', order);
  assert.equal((await json('send_payment', order)).paymentId, paid.paymentId);
  assert.equal((await json('get_payment', { paymentId: paid.paymentId })).amount, '0.50');
  assert.equal((await json('list_payments', { limit: 5, offset: 0 })).payments.length, 1);
  const resource = { url: 'https://example.com/data', maxAmount: '0.10' };
  const x402 = await json('pay_x402', { ...resource, recipient: provider.id });
  assert.ok(x402.paymentHeader);
  const { jobId } = await json('create_job', jobOf(provider));
  assert.equal((await json('fund_job', { jobId })).status, 'funded');
  assert.equal((await json('fund_job', { jobId })).status, 'funded', 'funded once');
  assert.equal((await json('get_balance')).balance, '3.388');
  assert.equal((await json('get_job', { jobId })).status, 'funded');

  const refused: [string, Record<string, unknown>, RegExp][] = [
    ['create_wallet', { name: 'x'.repeat(51) }, /^Create wallet failed: \[INVALID_NAME\] /],
    [
      'send_payment',
      { to: provider.id, amount: '99' },
      /^Payment failed: \[INSUFFICIENT_BALANCE\] /,
    ],
    ['list_payments', { limit: 1000 }, /^List payments failed: \[INVALID_REQUEST\] /],
    [
      'pay_x402',
      { ...resource, recipient: provider.id, network: 'solana' },
      /^x402 payment failed: \[UNSUPPORTED_NETWORK\] /,
    ],
    ['get_payment', { paymentId: 'pay_0' }, /^Get payment failed: \[PAYMENT_NOT_FOUND\] /],
    ['create_job', jobOf(provider, { budgetUsdc: '0' }), /^Create job failed: \[INVALID_BUDGET\] /],
    ['fund_job', { jobId: 'job_0000000000000000' }, /^Fund job failed: \[JOB_NOT_FOUND\] /],
    ['submit_job', { jobId, contentHash: keccak256('x') }, /^Submit job failed: \[NOT_PROVIDER\] /],
    ['get_job', { jobId: 'job_0000000000000000' }, /^Get job failed: \[JOB_NOT_FOUND\] /],
    ['get_job', {}, /^Get job failed: \[INVALID_REQUEST\] jobId: /],
    ['fund_job', { jobId: 7 }, /^Fund job failed: \[INVALID_REQUEST\] jobId: /],
    [
      'create_job',
      jobOf(provider, { budgetUsdc: 5 }),
      /^Create job failed: \[INVALID_BUDGET\] budgetUsdc: /,
    ],
  ];
  for (const [name, input, form] of refused) {
    const { text, isError } = await call(name, input);
    assert.equal(isError, true, name);
    assert.match(text, form);
  }

  const other = new Client({ name: 'provider', version: '1' });
  t.after(() => other.close());
  await other.connect(bridge(provider.id));
  const delivery = { jobId, contentHash: keccak256('done') };
  const answer = await other.callTool({ name: 'submit_job', arguments: delivery });
  const [content] = answer.content as { text: string }[];
  assert.equal(JSON.parse(content!.text).status, 'submitted', content!.text);
});
