// Operator guarantees, with the real program: tampered books are detected and located.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { onPostgres, startServer } from '../../helpers/server.ts';
import { openBank } from './bank.ts';

test(
  'errand escrow verify: exit code and the exact entry that was changed',
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
    // Somebody with access to the database drops the trigger and changes one amount.
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
