// The real server on a real chain, killed with SIGKILL at each step of a transaction: intent stored, transaction signed,
// sent, mined, event read. After every restart the same bytes are sent again. With ERRAND_TEST_DEEP=1 this covers each step
// of each transaction, for jobs with every outcome.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { keccak256 } from '../../../../../src/runtime/keccak.ts';
import { tempFolder } from '../../../../helpers/folder.ts';
import { startServer, type TestServer } from '../../../../helpers/server.ts';
import { until } from '../../../../helpers/until.ts';
import { startChain } from './chain-home.ts';
import { startProxy, type RpcCall } from './proxy.ts';

type Json = ReturnType<typeof JSON.parse>;

const deep = process.env.ERRAND_TEST_DEEP === '1';
/** Between two of its steps a job may see fifteen kills, each as long as a server start. */
const waitLimitMs = deep ? 600_000 : 120_000;
/** `written`: the intent is stored, but nothing is signed yet. */
const points = ['written', 'signed', 'sent', 'mined', 'read'] as const;
type Point = (typeof points)[number];

/** The step of a transaction that this call belongs to, and whether the node sees the call first. */
function pointOf({ method, params }: RpcCall, answer: Json): [Point, string][] {
  const found = answer !== null && answer !== undefined;
  if (method === 'eth_getTransactionReceipt' && found) return [['mined', String(params[0])]];
  if (method !== 'eth_getLogs') return [];
  const hashes = new Set((answer as Json[]).map(({ transactionHash }) => String(transactionHash)));
  return [...hashes].map((hash) => ['read', hash]);
}

test('kill -9 at every step of a transaction: resent byte for byte, paid once', async (t) => {
  const chain = await startChain(t);
  const { anvil, escrow, owns } = chain;
  const proxy = await startProxy(t, anvil);
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  const evm = { ...chain.settings.evm, rpcUrl: proxy.url };
  const settings = { ...chain.settings, evm };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ escrow: settings }));
  let server: TestServer = await startServer(t, { home });

  /** Every transaction that the server ever sent, by hash, and the steps at which it was killed. */
  const sent = new Map<string, { raw: string; deaths: Set<Point> }>();
  /** Calls with a gas estimate, which is the last request before signing. */
  const written = new Set<string>();
  const diedAt = new Set<Point>();
  let deaths = 0;
  let reborn = Promise.resolve();
  const die = (hash: string, point: Point): Promise<never> | undefined => {
    const tx = sent.get(hash);
    if (!tx || tx.deaths.has(point)) return undefined;
    // Each step once, in different transactions; all steps of all transactions in the deep run.
    if (!deep && (diedAt.has(point) || tx.deaths.size > 0)) return undefined;
    tx.deaths.add(point);
    return fall(point);
  };
  const fall = (point: Point): Promise<never> => {
    diedAt.add(point);
    deaths += 1;
    const dead = server.kill();
    reborn = reborn
      .then(() => dead)
      .then(async () => {
        server = await startServer(t, { home });
      });
    return new Promise(() => undefined);
  };
  proxy.meddle = async (call, pass) => {
    if (call.method === 'eth_estimateGas') {
      const estimate = JSON.stringify(call.params[0]);
      const isNew = !written.has(estimate);
      written.add(estimate);
      if (isNew && (deep || written.size === 1)) await fall('written');
    }
    if (call.method !== 'eth_sendRawTransaction') {
      const answer = await pass();
      for (const [point, hash] of pointOf(call, answer)) await die(hash, point);
      return answer;
    }
    const raw = String(call.params[0]);
    const hash = keccak256(Buffer.from(raw.slice(2), 'hex'));
    if (!sent.has(hash)) sent.set(hash, { raw, deaths: new Set() });
    assert.equal(raw, sent.get(hash)!.raw);
    await die(hash, 'signed');
    const answer = await pass();
    await die(hash, 'sent');
    return answer;
  };

  /** Repeats interrupted calls until the server is back. */
  const call = (method: string, path: string, body?: unknown): Promise<Json> =>
    until(
      path,
      async () => {
        await reborn;
        const answer = await server.api(method, path, body);
        if (answer.status >= 500 || answer.text.includes('settlementPending')) return undefined;
        assert.ok(answer.status < 400, `${path}: ${answer.text}`);
        return answer.json();
      },
      waitLimitMs,
    );
  const reaches = (id: string, stage: string, waitMs = waitLimitMs) =>
    until(
      `${id} is ${stage}`,
      async () => {
        const job = await call('GET', `/api/jobs/${id}`);
        return job.stage === stage && job.settling === undefined ? job : undefined;
      },
      waitMs,
    );
  const wallet = (name: string) => call('POST', '/api/wallets', { name });
  const [client, provider] = [await wallet('client'), await wallet('provider')];
  await chain.mint(client.address, 10_000_000);

  const hire = async (key: string, expiresAt?: string): Promise<string> => {
    const { id } = await call('POST', '/api/work', {
      wallet: client.id,
      provider: provider.id,
      budget: '1000000',
      title: key,
      description: 'x',
      idempotencyKey: key,
      ...(expiresAt === undefined ? {} : { expiresAt }),
    });
    await reaches(id, 'open');
    return id;
  };
  const act = (id: string, path: string, who: Json, more: object = {}) =>
    call('POST', `/api/work/${id}/${path}`, { wallet: who.id, ...more });

  const good = await hire('good');
  await act(good, 'fund', client);
  await reaches(good, 'funded');
  await act(good, 'submit', provider, { content: 'done' });
  await reaches(good, 'submitted');
  await act(good, 'evaluate', client, { verdict: 'approve', reason: 'good' });
  await reaches(good, 'completed');
  if (deep) {
    const bad = await hire('bad');
    await act(bad, 'fund', client);
    await reaches(bad, 'funded');
    await act(bad, 'submit', provider, { content: 'nothing' });
    await reaches(bad, 'submitted');
    await act(bad, 'evaluate', client, { verdict: 'reject', reason: 'bad' });
    await reaches(bad, 'rejected');
    const dear = await hire('dear');
    await act(dear, 'counter', provider, { budget: '1200000' });
    await until('the price is the new one', async () => {
      const job = await reaches(dear, 'open');
      return JSON.stringify(job).includes('1200000') || undefined;
    });
    await act(dear, 'decline', client);
    await reaches(dear, 'rejected');
    const start = Date.now();
    const declined = await hire('declined');
    await act(declined, 'fund', client);
    await reaches(declined, 'funded');
    // Despite all kills, the next job must be funded before it expires, even on a slow machine.
    const lifeMs = 30_000 + 3 * (Date.now() - start);
    await act(declined, 'decline', provider);
    await reaches(declined, 'rejected');
    const late = await hire('late', new Date(Date.now() + lifeMs).toISOString());
    await act(late, 'fund', client);
    await reaches(late, 'expired', lifeMs + waitLimitMs);
  }

  // The contract credits fees, and the server withdraws them with a separate transaction.
  await until(
    "the evaluator's fee is withdrawn",
    async () => (await owns(client.address)) === 9_050_000,
    waitLimitMs,
  );
  assert.deepEqual(
    [await owns(client.address), await owns(provider.address), await owns(escrow)],
    [9_050_000, 930_000, 20_000],
    'the client is its own evaluator; the owner can withdraw the platform fee',
  );
  const mined = await Promise.all(
    [...sent.keys()].map((hash) => anvil.rpc<Json>('eth_getTransactionReceipt', [hash])),
  );
  assert.ok(
    mined.every((receipt) => receipt?.status === '0x1'),
    'every created transaction was mined',
  );
  assert.ok(deaths >= (deep ? 10 : points.length), `${deaths} kills in ${sent.size} transactions`);
  assert.deepEqual(
    [...points].filter((point) => !diedAt.has(point)),
    [],
  );
});
