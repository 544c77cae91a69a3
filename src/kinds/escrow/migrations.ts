// The escrow tables, identical on both databases. Entries are append-only: the database itself refuses changes.
import type { Ddl, Migration } from '../../store/store.ts';
import { maxSupplyMicro } from './money.ts';
import { feeAccounts, genesis, worldAccount } from './settlement/ledger/book.ts';

export const escrowMigrations: Migration[] = [
  { id: 'escrow/1', statements: tables },
  { id: 'escrow/3', statements: sides },
  { id: 'escrow/5', statements: judges },
  { id: 'escrow/7', statements: leases },
  { id: 'escrow/8', statements: formats },
  { id: 'escrow/9', statements: openIndex },
];

/** Posting counts the open jobs of the client. */
function openIndex(): string[] {
  return [`CREATE INDEX escrow_work_open ON escrow_work (client) WHERE phase = 'open'`];
}

/** The format was named after the system whose body it has. */
function formats(): string[] {
  return [`UPDATE webhooks SET format = 'wallet' WHERE format = 'cardzero'`];
}

/** The node that holds the lease of a due evaluation. After a restart of that node, none of these can still be running. */
function leases(): string[] {
  return ['ALTER TABLE escrow_work ADD COLUMN holder TEXT'];
}

/** Lists jobs for their quorum members and arbiter, who have no column in escrow_work. */
function judges(ddl: Ddl): string[] {
  return [
    `CREATE TABLE escrow_judges (
      wallet TEXT NOT NULL, role TEXT NOT NULL, job_id TEXT NOT NULL,
      PRIMARY KEY (wallet, role, job_id)) ${ddl.strict}`,
  ];
}

function tables(ddl: Ddl): string[] {
  return [
    `CREATE TABLE escrow_accounts (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, owner TEXT, name TEXT, status TEXT NOT NULL,
      address TEXT, policy TEXT, secret TEXT, balance ${ddl.int} NOT NULL, floor ${ddl.int} NOT NULL,
      day TEXT, spent ${ddl.int} NOT NULL, version ${ddl.int} NOT NULL, seq ${ddl.int} NOT NULL,
      head TEXT NOT NULL, created_at ${ddl.int} NOT NULL, CHECK (balance >= floor)) ${ddl.strict}`,
    `CREATE UNIQUE INDEX escrow_accounts_address ON escrow_accounts (address)
      WHERE address IS NOT NULL`,
    `CREATE INDEX escrow_accounts_owner ON escrow_accounts (owner, created_at)
      WHERE owner IS NOT NULL`,
    // Keyed by a serial number: concurrent payments of many wallets append to the same pages.
    `CREATE TABLE escrow_entries (
      id ${ddl.serial}, account TEXT NOT NULL, seq ${ddl.int} NOT NULL, transfer TEXT NOT NULL,
      line ${ddl.int} NOT NULL, credit TEXT NOT NULL, amount ${ddl.int} NOT NULL CHECK (amount > 0),
      kind TEXT NOT NULL, job_id TEXT, at ${ddl.int} NOT NULL, hash TEXT NOT NULL,
      CHECK (account <> credit)) ${ddl.strict}`,
    'CREATE UNIQUE INDEX escrow_entries_transfer ON escrow_entries (transfer, line)',
    `CREATE TABLE escrow_work (
      job_id TEXT PRIMARY KEY, client TEXT NOT NULL, provider TEXT NOT NULL, evaluator TEXT,
      settlement TEXT NOT NULL, external TEXT, phase TEXT NOT NULL, outcome TEXT,
      budget ${ddl.int} NOT NULL,
      held ${ddl.int} NOT NULL, deadline_at ${ddl.int}, next_at ${ddl.int}, spec TEXT NOT NULL,
      state TEXT NOT NULL, version ${ddl.int} NOT NULL, created_at ${ddl.int} NOT NULL,
      updated_at ${ddl.int} NOT NULL) ${ddl.strict}`,
    'CREATE INDEX escrow_work_client ON escrow_work (client, created_at, job_id)',
    'CREATE INDEX escrow_work_provider ON escrow_work (provider, created_at, job_id)',
    `CREATE INDEX escrow_work_evaluator ON escrow_work (evaluator, created_at, job_id)
      WHERE evaluator IS NOT NULL`,
    'CREATE INDEX escrow_work_next ON escrow_work (next_at) WHERE next_at IS NOT NULL',
    `CREATE TABLE escrow_deliverables (
      job_id TEXT NOT NULL, n ${ddl.int} NOT NULL, hash TEXT NOT NULL, uri TEXT, content TEXT,
      at ${ddl.int} NOT NULL, PRIMARY KEY (job_id, n)) ${ddl.strict}`,
    `CREATE TABLE escrow_payments (
      id TEXT PRIMARY KEY, payer TEXT NOT NULL, payee TEXT NOT NULL, amount ${ddl.int} NOT NULL,
      fee ${ddl.int} NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, memo TEXT,
      detail TEXT, at ${ddl.int} NOT NULL) ${ddl.strict}`,
    'CREATE INDEX escrow_payments_payer ON escrow_payments (payer, at, id)',
    'CREATE INDEX escrow_payments_payee ON escrow_payments (payee, at, id)',
    `CREATE TABLE escrow_keys (
      key TEXT PRIMARY KEY, body TEXT NOT NULL, ref TEXT NOT NULL,
      until ${ddl.int} NOT NULL) ${ddl.strict}`,
    'CREATE INDEX escrow_keys_until ON escrow_keys (until)',
    ...fixedAccounts(),
    ...appendOnly(ddl),
  ];
}

/** Lists each payment for both wallets: one tree by wallet and time instead of two indexes halves the pages written. */
function sides(ddl: Ddl): string[] {
  const rowless = ddl.engine === 'sqlite' ? ', WITHOUT ROWID' : '';
  return [
    `CREATE TABLE escrow_payment_sides (
      wallet TEXT NOT NULL, at ${ddl.int} NOT NULL, id TEXT NOT NULL,
      PRIMARY KEY (wallet, at, id)) ${ddl.strict}${rowless}`,
    `INSERT INTO escrow_payment_sides (wallet, at, id)
      SELECT payer, at, id FROM escrow_payments UNION ALL SELECT payee, at, id FROM escrow_payments`,
    'DROP INDEX escrow_payments_payer',
    'DROP INDEX escrow_payments_payee',
  ];
}

/** The accounts that always exist: the mint, and those that collect fees. */
function fixedAccounts(): string[] {
  const row = (id: string, kind: string, floor: number) =>
    `INSERT INTO escrow_accounts (id, kind, status, balance, floor, spent, version, seq, head,
      created_at) VALUES ('${id}', '${kind}', 'active', 0, ${floor}, 0, 1, 0, '${genesis(id)}', 0)`;
  return [
    row(worldAccount, 'world', -maxSupplyMicro),
    ...feeAccounts.map((id) => row(id, 'fees', 0)),
  ];
}

/** The tables of the chain adapter. */
export const evmMigrations: Migration[] = [
  {
    id: 'escrow/2',
    statements: (ddl: Ddl) => [
      `CREATE TABLE escrow_intents (
        seq ${ddl.serial}, id TEXT NOT NULL UNIQUE, job_id TEXT, action TEXT NOT NULL, effect TEXT, input TEXT NOT NULL,
        signer TEXT NOT NULL, step ${ddl.int} NOT NULL, status TEXT NOT NULL, error TEXT,
        created_at ${ddl.int} NOT NULL) ${ddl.strict}`,
      `CREATE INDEX escrow_intents_active ON escrow_intents (seq) WHERE status = 'active'`,
      `CREATE TABLE escrow_txs (
        hash TEXT PRIMARY KEY, intent_id TEXT NOT NULL, step ${ddl.int} NOT NULL,
        signer TEXT NOT NULL, nonce ${ddl.int} NOT NULL, raw TEXT NOT NULL, status TEXT NOT NULL,
        block ${ddl.int}, created_at ${ddl.int} NOT NULL) ${ddl.strict}`,
      `CREATE UNIQUE INDEX escrow_txs_nonce ON escrow_txs (signer, nonce) WHERE status <> 'dropped'`,
      'CREATE INDEX escrow_txs_intent ON escrow_txs (intent_id, step)',
      `CREATE TABLE escrow_blocks (
        number ${ddl.int} PRIMARY KEY, hash TEXT NOT NULL) ${ddl.strict}`,
      `CREATE TABLE escrow_chain_events (
        block ${ddl.int} NOT NULL, log_index ${ddl.int} NOT NULL, tx_hash TEXT NOT NULL,
        job_id TEXT NOT NULL, name TEXT NOT NULL, before TEXT NOT NULL,
        PRIMARY KEY (block, log_index)) ${ddl.strict}`,
    ],
  },
  {
    id: 'escrow/4',
    statements: (ddl: Ddl) => [
      // A stuck transaction and its replacement share a nonce; only one of them is current.
      'DROP INDEX escrow_txs_nonce',
      `CREATE UNIQUE INDEX escrow_txs_nonce ON escrow_txs (signer, nonce)
        WHERE status IN ('signed', 'mined')`,
      `CREATE TABLE escrow_chains (
        n ${ddl.int} PRIMARY KEY, chain_id ${ddl.int} NOT NULL, genesis TEXT NOT NULL)
        ${ddl.strict}`,
    ],
  },
];

function appendOnly(ddl: Ddl): string[] {
  if (ddl.engine === 'sqlite') {
    return ['UPDATE', 'DELETE'].map(
      (verb) => `CREATE TRIGGER escrow_entries_no_${verb.toLowerCase()} BEFORE ${verb}
        ON escrow_entries BEGIN SELECT RAISE(ABORT, 'escrow entries are append-only'); END`,
    );
  }
  return [
    `CREATE FUNCTION escrow_entries_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'escrow entries are append-only'; END $$`,
    `CREATE TRIGGER escrow_entries_no_change BEFORE UPDATE OR DELETE ON escrow_entries
      FOR EACH ROW EXECUTE FUNCTION escrow_entries_refuse()`,
  ];
}
