// CardZero calls with money on a chain: as in CardZero, each call returns once the chain has confirmed it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak256 } from '../../../src/runtime/keccak.ts';
import { until } from '../../helpers/until.ts';
import { startChain } from '../../kinds/escrow/settlement/evm/chain-home.ts';
import { jobOf, openMarket, page } from './market.ts';

test('a job on a chain: every response contains chain ids and transactions', async (t) => {
  const words = '{"words":12}';
  const site = await page(t, () => ({ status: 200, body: words }));
  const chain = await startChain(t);
  const market = await openMarket(t, [site.host], chain.settings);
  const { call } = market;
  const [client, provider] = [await market.party('client'), await market.party('provider')];
  await chain.mint(client.address, 5_000_000);
  const balance = await call(client, 'GET', `/wallets/${client.id}/balance`);
  assert.deepEqual(balance.body, { walletId: client.id, balance: '5.00', currency: 'USDC' });

  const rule = { type: 'json_schema', schema: { type: 'object', required: ['words'] } };
  const made = await call(client, 'POST', '/jobs', jobOf(provider, { evaluatorRule: rule }));
  assert.equal(made.status, 201, made.text);
  const { jobId, onchainJobId, createTxHash } = made.body;
  assert.equal(onchainJobId, 1);
  const isHash = /^0x[0-9a-f]{64}$/;
  assert.match(createTxHash, isHash);
  const funded = await call(client, 'POST', `/jobs/${jobId}/fund`);
  assert.equal(funded.body.status, 'funded', funded.text);
  assert.match(funded.body.fundTxHash, isHash);
  assert.equal(await chain.owns(chain.escrow), 1_000_000);
  const early = await call(client, 'POST', `/jobs/${jobId}/refund`);
  assert.equal(early.body.error, 'NOT_YET_EXPIRED');
  const delivery = { contentHash: keccak256(words), contentURI: site.url };
  const submitted = await call(provider, 'POST', `/jobs/${jobId}/submit`, delivery);
  assert.equal(submitted.status, 200, submitted.text);
  assert.match(submitted.body.submitTxHash, isHash);
  const { body } = await until('the rule has decided', async () => {
    const seen = await call(undefined, 'GET', `/jobs/${jobId}`);
    return seen.body.status === 'completed' ? seen : undefined;
  });
  for (const name of ['create', 'fund', 'submit', 'finalize']) {
    assert.match(body[`${name}_tx_hash`], isHash, name);
  }
  assert.deepEqual(
    [await chain.owns(client.address), await chain.owns(provider.address)],
    [4_000_000, 930_000],
  );
  // A call that the chain would reject fails with the usual error.
  const dear = jobOf(provider, { budgetUsdc: '99000000', idempotencyKey: 'dear' });
  const other = await call(client, 'POST', '/jobs', dear);
  const poor = await call(client, 'POST', `/jobs/${other.body.jobId}/fund`);
  assert.equal(poor.body.error, 'INSUFFICIENT_BALANCE', poor.text);
});
