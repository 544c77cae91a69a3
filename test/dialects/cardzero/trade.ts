// Shared setup for the twenty CardZero tests: a market with a client, a provider and a judge of three different owners, a
// site, a webhook receiver, and calls that move a job to a stage.
import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { keccak256 } from '../../../src/runtime/keccak.ts';
import { jobOf, openMarket, page, type Json, type Party } from './market.ts';

interface Heard {
  path: string;
  headers: IncomingHttpHeaders;
  raw: string;
  body: Json;
}

/** Receives webhooks; rejects the first few. */
async function openReceiver(t: TestContext) {
  const heard: Heard[] = [];
  const state = { refuse: 0 };
  const server = createServer((request, response) => {
    let raw = '';
    request.setEncoding('utf8').on('data', (part: string) => (raw += part));
    request.on('end', () => {
      const refused = state.refuse > 0;
      if (refused) state.refuse -= 1;
      const path = request.url ?? '';
      if (!refused) heard.push({ path, headers: request.headers, raw, body: JSON.parse(raw) });
      response.writeHead(refused ? 500 : 204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `http://${host}`, host, heard, state };
}

export const delivery = (content: string) => ({ contentHash: keccak256(content) });

export async function openTrade(t: TestContext) {
  const words = '{"words":12}';
  const site = await page(t, () => ({ status: 200, body: words }));
  const receiver = await openReceiver(t);
  const market = await openMarket(t, [site.host, receiver.host], {
    minExpiryMs: 1,
    stuckMs: 1500,
  });
  const { call, api } = market;
  const client = await market.party('client', '90.00');
  const provider = await market.party('provider', undefined, 'another-owner');
  const judge = await market.party('judge', undefined, 'third-owner');
  const manual = { type: 'manual', wallet: judge.id };
  let keys = 0;
  const create = async (more: Record<string, unknown> = {}): Promise<string> => {
    const request = jobOf(provider, { idempotencyKey: `key ${keys++}`, ...more });
    const made = await call(client, 'POST', '/jobs', request);
    assert.equal(made.status, 201, made.text);
    return made.body.jobId;
  };
  const act = (who: Party | undefined, id: string, name: string, body?: unknown) =>
    call(who, 'POST', `/jobs/${id}/${name}`, body);
  const stage = async (id: string) => (await call(undefined, 'GET', `/jobs/${id}`)).body.status;
  const balance = async (who: Party) =>
    (await call(who, 'GET', `/wallets/${who.id}/balance`)).body.balance;
  const funded = async (more: Record<string, unknown> = {}): Promise<string> => {
    const id = await create(more);
    assert.equal((await act(client, id, 'fund')).status, 200);
    return id;
  };
  const submitted = async (more: Record<string, unknown> = {}): Promise<string> => {
    const id = await funded(more);
    assert.equal((await act(provider, id, 'submit', delivery('done'))).status, 200);
    return id;
  };
  /** Uses a deadline that CardZero does not allow. */
  const brief = async (ms: number): Promise<string> => {
    const job = await api('POST', '/api/work', {
      wallet: client.id,
      provider: provider.id,
      budget: '1000000',
      title: `brief ${keys++}`,
      description: 'x',
      expiresAt: new Date(Date.now() + ms).toISOString(),
      fund: true,
      repeat: true,
    });
    return job.id;
  };
  const as = (who: Party, id: string, path: string, body: object) =>
    fetch(`${market.server.url}/api/work/${id}/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${who.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  return {
    ...market,
    words,
    site,
    receiver,
    client,
    provider,
    judge,
    manual,
    create,
    funded,
    submitted,
    brief,
    act,
    as,
    stage,
    balance,
    nextKey: () => `key ${keys++}`,
  };
}
