// The real server, killed with SIGKILL while it evaluates a delivery: the next process continues immediately, before the
// old lease ends and even when the deadline has passed meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { openBank, type Json } from './bank.ts';
import { json, openSite } from './site.ts';

/** How much longer than the first hire the second one may take before its deadline. */
const slower = 5;
const minLifeMs = 2000;

test('kill -9 during an evaluation does not cost the provider its pay', async (t) => {
  const site = await openSite(t, () => undefined);
  const escrow = { minExpiryMs: 1, sweepMs: 100, evaluationLeaseMs: 600_000 };
  const bank = await openBank(t, { escrow, egress: { allow: [site.host] } });
  const { call, client, provider, home, server } = bank;
  const hire = async (expiryMs: number): Promise<string> => {
    const { id } = await call(server, 'POST', '/api/work', {
      ...{ wallet: client, provider, budget: '1000000', title: 'x', description: 'x' },
      ...{ rule: { type: 'http_check', url: site.url, timeoutMs: 30_000 }, fund: true },
      ...{ evaluationMs: 0, silence: 'refund', repeat: true },
      expiresAt: new Date(Date.now() + expiryMs).toISOString(),
    });
    const { hits } = site;
    await call(server, 'POST', `/api/work/${id}/submit`, { wallet: provider, content: 'done' });
    await until('the page is asked', () => site.hits > hits);
    return id;
  };
  const before = Date.now();
  const long = await hire(3_600_000);
  // The measured time to post, fund and deliver, plus a margin; the test waits until it has passed.
  const short = await hire(minLifeMs + slower * (Date.now() - before));
  const { deadline } = await call(server, 'GET', `/api/jobs/${short}`);
  await server.kill();
  site.page = json('{}');
  await until('the deadline has passed', () => Date.now() > Date.parse(deadline));
  const next = await startServer(t, { home });
  for (const id of [long, short]) {
    const job = await until('it is over', async () => {
      const present = await call(next, 'GET', `/api/jobs/${id}`);
      // The outcome is known before the payment is made.
      return present.status === 'running' ? undefined : present;
    });
    assert.deepEqual([job.stage, job.outcome], ['completed', 'approved']);
    const paid = job.transactions.filter(({ kind }: Json) => kind === 'complete');
    assert.equal(paid.length, 1, 'the rule decides once');
  }
  assert.deepEqual((await bank.funds(next))[1], 2 * 930_000);
  assert.equal((await call(next, 'GET', '/api/escrow/verify')).escrowed, '0');
});
