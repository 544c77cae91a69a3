// Our side of the escrow benchmarks: the kind as the server composes it, on the embedded store.
import { join } from 'node:path';
import { Access } from '../../src/access/keys.ts';
import { accessMigrations } from '../../src/access/keys.ts';
import { registerErrors } from '../../src/errors.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { Webhooks } from '../../src/webhooks/webhooks.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { assemble, type Assembled } from '../../src/kinds/escrow/assemble.ts';
import { escrowErrors } from '../../src/kinds/escrow/errors.ts';
import { escrowOperations } from '../../src/kinds/escrow/index.ts';
import { escrowKind } from '../../src/kinds/escrow/kind.ts';
import { escrowMigrations } from '../../src/kinds/escrow/migrations.ts';
import type { Wallet } from '../../src/kinds/escrow/store/rows.ts';
import { transferSteps } from '../../src/kinds/escrow/store/entries.ts';
import { escrowSettingsSchema } from '../../src/kinds/escrow/settings.ts';
import { Operations, type Caller } from '../../src/operation.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { scratchFolder } from '../harness.ts';

export interface Bank extends Assembled {
  sqlite: SqliteStore;
  path: string;
  wallets16: Wallet[];
  operations: Operations;
  close(): Promise<void>;
}

export const concurrency = 16;

export async function openBank(): Promise<Bank> {
  const path = join(scratchFolder(), 'errand.sqlite');
  const sqlite = new SqliteStore(path);
  await sqlite.migrate([...jobMigrations, ...accessMigrations, ...escrowMigrations]);
  registerErrors(escrowErrors);
  const clock = systemClock;
  const jobs = new Jobs(sqlite, clock);
  let services: Assembled | undefined;
  jobs.addKind(escrowKind(() => services!));
  services = assemble({
    jobs,
    store: sqlite,
    access: new Access(sqlite, clock, 'owner-key'),
    webhooks: new Webhooks({
      jobs,
      store: sqlite,
      clock,
      log: silentLog,
      send: async () => 200,
      secretOf: () => Buffer.alloc(32),
    }),
    clock,
    log: silentLog,
    node: 'bench',
    settings: escrowSettingsSchema.parse({}),
    fetch: async () => {
      throw new Error('no network');
    },
    vetUrl: async () => undefined,
    sign: (text) => text,
  });
  const wallets16: Wallet[] = [];
  for (let i = 0; i < concurrency; i++) {
    const wallet = await services.wallets.create('bench', `wallet ${i}`);
    wallets16.push(await services.wallets.mint(wallet.id, 10_000_000_000, `start ${i}`));
  }
  const operations = new Operations();
  operations.add(escrowOperations(services), 'escrow');
  return { ...services, sqlite, path, wallets16, operations, close: () => sqlite.close() };
}

let turn = 0;
const never = new AbortController().signal;

/** One ledger transfer: payer and payee, an entry in the payer's chain, once per id. */
export async function transferOnce(bank: Bank): Promise<void> {
  const n = turn++;
  const from = n % concurrency;
  const source = (await bank.store.account(bank.wallets16[from]!.id))!;
  const credit = bank.wallets16[(from + 1) % concurrency]!.id;
  const at = systemClock.now();
  const id = `t${at.toString(32)}-${n}`;
  const lines = [{ credit, amount: 1000, kind: 'payment' as const }];
  const { applied } = await bank.sqlite.commit(transferSteps({ id, source, lines, at }));
  if (!applied) throw new Error('a transfer was rejected');
}

/** The complete operation: input validation, key and limit lookups, fee, payment record, idempotency key. */
export async function payOnce(bank: Bank): Promise<void> {
  const n = turn++;
  const from = n % concurrency;
  const caller: Caller = {
    owner: 'bench',
    scopes: new Set(['read', 'run']),
    admin: false,
    local: false,
    subject: `wallet:${bank.wallets16[from]!.id}`,
  };
  const to = bank.wallets16[(from + 1) % concurrency]!.id;
  const input = { to, amount: '0.001', idempotencyKey: `purchase ${n}` };
  await bank.operations.call('send_payment', input, { caller, signal: never });
}

/** Post, fund, deliver, approve: four durable steps. */
export async function hireOnce(bank: Bank): Promise<string> {
  const from = turn++ % concurrency;
  const client = bank.wallets16[from]!;
  const provider = bank.wallets16[(from + 1) % concurrency]!;
  const { work } = await bank.posting.post({
    client,
    owner: 'bench',
    provider: provider.id,
    budget: 1000,
    title: 'bench',
    description: 'x'.repeat(100),
    rule: { type: 'manual' },
    repeat: true,
  });
  const id = work.jobId;
  await bank.escrow.act(id, { actor: { wallet: client.id }, action: 'fund' });
  const submission = { n: 2, hash: 'sha256:0', uri: null, inline: true, at: systemClock.now() };
  await bank.escrow.act(id, {
    actor: { wallet: provider.id },
    action: 'submit',
    submission,
    steps: () => [bank.store.works.insertDeliverable(id, { ...submission, content: 'done' })],
  });
  await bank.evaluation.decide(id, client.id, { outcome: 'approved', reason: 'ok', checks: [] });
  return id;
}
