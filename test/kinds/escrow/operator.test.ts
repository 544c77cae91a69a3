// What an operator relies on, with the real program: tampered books are found and named, and a server that is killed while
// a rule is being decided decides it after all, once.
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { onPostgres, startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';
import { openBank, type Json } from './bank.ts';

test(
  'errand escrow verify: exit code and the very place that was changed',
  { skip: onPostgres },
  async (t) => {
    const { home, server, call, client, provider } = await openBank(t, {});
    for (const key of ['a', 'b', 'c']) {
      const payment = { wallet: client, to: provider, amount: '1', idempotencyKey: key };
      await call(server, 'POST', '/api/payments', payment);
    }
    const sound = await server.cli('escrow', 'verify', '--json');
    assert.equal(sound.code, 0, sound.stderr);
    const { fold, supply } = sound.json<{ fold: string; supply: string }>();
    assert.match(fold, /^[0-9a-f]{64}$/);
    assert.equal(supply, '100000000');
    await server.stop();
    // Somebody with the database in hand takes the guard away and changes one amount.
    const db = new DatabaseSync(join(home, 'errand.sqlite'));
    db.exec(`DROP TRIGGER escrow_entries_no_update;
    UPDATE escrow_entries SET amount = 900000 WHERE account = '${client}' AND seq = 3`);
    db.close();
    const again = await startServer(t, { home });
    const forged = await again.cli('escrow', 'verify');
    assert.notEqual(forged.code, 0);
    assert.match(forged.stderr, new RegExp(`${client}: entry 3 was changed`));
    const json = await again.cli('escrow', 'verify', '--json');
    assert.match(json.stdout, /"problems":/);
  },
);

test('killed while a rule is decided: it is decided after the restart, once', async (t) => {
  let hanging: (() => void) | undefined;
  const asked = new Promise<void>((resolve) => (hanging = resolve));
  let answer = (_response: ServerResponse) => hanging?.();
  const site = createServer((_request, response) => answer(response));
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  t.after(() => (site.closeAllConnections(), site.close()));
  const host = `127.0.0.1:${(site.address() as AddressInfo).port}`;
  const { home, server, call, client, provider } = await openBank(t, {
    escrow: { sweepMs: 100, evaluationLeaseMs: 500 },
    egress: { allow: [host] },
  });
  const { id } = await call(server, 'POST', '/api/work', {
    wallet: client,
    provider,
    budget: '1000000',
    title: 'x',
    description: 'x',
    rule: { type: 'http_check', url: `http://${host}/` },
    fund: true,
  });
  await call(server, 'POST', `/api/work/${id}/submit`, { wallet: provider, content: 'x' });
  await asked;
  await server.kill();
  answer = (response) => void response.end('fine');
  const next = await startServer(t, { home });
  const done = await until('the rule has decided', async () => {
    const job = await call(next, 'GET', `/api/jobs/${id}`);
    return job.stage === 'completed' ? job : undefined;
  });
  assert.equal(done.transactions.filter(({ kind }: Json) => kind === 'complete').length, 1);
  assert.equal((await call(next, 'GET', '/api/escrow/verify')).escrowed, '0');
});
