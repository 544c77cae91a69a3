// x402 from both sides over real HTTP: a shop with only its server and key, a client with only fetch and its wallet key, and
// the tool that does everything in one call.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { openBank, type Json } from './bank.ts';

test('a shop requires payment, a plain client pays and returns, and each payment works once', async (t) => {
  const shop = createServer(
    (request, response) => void serve(request.headers['x-payment'], response),
  );
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  t.after(() => (shop.closeAllConnections(), shop.close()));
  const host = `127.0.0.1:${(shop.address() as AddressInfo).port}`;
  const url = `http://${host}/report`;
  const { server, call, client, provider } = await openBank(t, { egress: { allow: [host] } });
  const price = '250000';
  async function serve(payment: unknown, response: import('node:http').ServerResponse) {
    const asked = { wallet: provider, resource: url, price, ...(payment ? { payment } : {}) };
    const answer = await call(server, 'POST', '/api/x402/charge', asked);
    response.writeHead(answer.status, answer.headers);
    response.end(answer.paid ? 'the report' : JSON.stringify(answer.body));
  }

  const first = await fetch(url);
  assert.equal(first.status, 402);
  const { accepts } = (await first.json()) as Json;
  assert.deepEqual([accepts[0].maxAmountRequired, accepts[0].payTo], [price, provider]);
  const required = JSON.parse(
    Buffer.from(first.headers.get('payment-required')!, 'base64').toString(),
  );
  assert.equal(required.x402Version, 2, 'the newer header says the same');

  const pay = (more: object) =>
    call(server, 'POST', '/api/x402/pay', { wallet: client, url, maxAmount: '0.25', ...more });
  const proof = await pay({ recipient: accepts[0].payTo, idempotencyKey: 'by hand' });
  const again = await pay({ recipient: accepts[0].payTo, idempotencyKey: 'by hand' });
  assert.equal(again.paymentId, proof.paymentId, 'a retry pays once');
  const headers = { 'x-payment': proof.paymentHeader };
  const second = await fetch(url, { headers });
  assert.deepEqual([second.status, await second.text()], [200, 'the report']);
  const receipt = JSON.parse(
    Buffer.from(second.headers.get('x-payment-response')!, 'base64').toString(),
  );
  assert.deepEqual([receipt.success, receipt.payer], [true, client]);
  assert.equal((await fetch(url, { headers })).status, 402, 'a payment works once');

  const bought = await pay({ idempotencyKey: 'in one call' });
  assert.equal(bought.status, 200);
  assert.match(bought.body, /^<untrusted-\w+>[\s\S]*the report/);
  const { wallets } = await call(server, 'GET', '/api/wallets');
  const earned = wallets.find(({ id }: Json) => id === provider);
  assert.equal(earned.balance, '0.50');
});
