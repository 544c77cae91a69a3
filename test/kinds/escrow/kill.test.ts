// The real server, killed with SIGKILL at random moments while agents hire, deliver, decide and pay: confirmed calls took
// effect, retried calls took effect once, and the books balance after every restart.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../helpers/folder.ts';
import { startServer, type TestServer } from '../../helpers/server.ts';

type Json = ReturnType<typeof JSON.parse>;

const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 25 : 2;

interface Hire {
  key: string;
  id?: string;
  stage?: string;
}

test('kill -9 at random moments: nothing is lost and nothing happens twice', async (t) => {
  const home = join(tempFolder(t), 'home');
  let server: TestServer = await startServer(t, { home });
  const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await server.api(method, path, body);
    if (answer.status >= 400) throw new Error(`${path}: ${answer.text}`);
    return answer.json();
  };
  const client = await call('POST', '/api/wallets', { name: 'client' });
  const provider = await call('POST', '/api/wallets', { name: 'provider' });
  const mint = { wallet: client.id, amount: '1000.00', transferId: 'start' };
  await call('POST', '/api/escrow/mint', mint);
  const hires: Hire[] = [];
  let paid = 0;

  /** One hire from post to payment; every interrupted call is repeated later with the same key. */
  const hire = async (one: Hire): Promise<void> => {
    const post = {
      wallet: client.id,
      provider: provider.id,
      budget: '1000000',
      title: one.key,
      description: 'x',
      idempotencyKey: one.key,
      repeat: true,
    };
    one.id = (await call('POST', '/api/work', post)).id;
    const at = (path: string, body: object) => call('POST', `/api/work/${one.id}/${path}`, body);
    const present = await call('GET', `/api/jobs/${one.id}`);
    if (present.stage === 'completed') return void (one.stage = 'completed');
    await at('fund', { wallet: client.id });
    await at('submit', { wallet: provider.id, content: one.key });
    const verdict = { wallet: client.id, verdict: 'approve', reason: 'ok' };
    one.stage = (await at('evaluate', verdict)).stage;
  };

  for (let round = 0; round < rounds; round++) {
    const batch = Array.from({ length: 12 }, (_, i): Hire => ({ key: `hire-${round}-${i}` }));
    hires.push(...batch);
    const working = Promise.allSettled(batch.map(hire));
    await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 250));
    await server.kill();
    await working;
    server = await startServer(t, { home });
    const books = await call('GET', '/api/escrow/verify');
    assert.deepEqual(books.problems, [], `round ${round}`);
    // Every job confirmed as completed is completed.
    for (const one of hires.filter(({ stage }) => stage === 'completed')) {
      assert.equal((await call('GET', `/api/jobs/${one.id}`)).stage, 'completed');
    }
    await Promise.all(hires.filter(({ stage }) => stage !== 'completed').map(hire));
    paid = hires.length;
  }
  const { wallets } = await call('GET', '/api/wallets');
  const balanceOf = (id: string) => wallets.find((wallet: Json) => wallet.id === id).balanceMicro;
  assert.equal(balanceOf(provider.id), String(paid * 930_000), 'each hire was paid once');
  assert.equal(balanceOf(client.id), String(1_000_000_000 - paid * 950_000));
  const { work } = await call('GET', `/api/work?role=client&limit=100&wallet=${client.id}`);
  assert.equal(work.length, paid, 'no hire exists twice');
  const books = await call('GET', '/api/escrow/verify');
  assert.equal(books.escrowed, '0');
  assert.equal(books.ok, true);
});
