// SQL for accounts, wallets and idempotency keys, for both databases; jobs and payments have their own stores. Statements
// that change something are returned as steps and join the caller's transaction.
import { AppError } from '../../../errors.ts';
import type { Step, Store } from '../../../store/store.ts';
import {
  accountOf,
  spenderOf,
  walletOf,
  type RememberedKey,
  type Spender,
  type Wallet,
} from './rows.ts';
import { PaymentStore } from './payments.ts';
import { genesis, worldAccount, type Account } from '../settlement/ledger/book.ts';
import { WorkStore } from './work.ts';

export class EscrowStore {
  readonly store: Store;
  readonly works: WorkStore;
  readonly payments: PaymentStore;

  constructor(store: Store) {
    this.store = store;
    this.works = new WorkStore(store);
    this.payments = new PaymentStore(store);
  }

  async account(id: string): Promise<Account | undefined> {
    const [row] = await this.store.read(accountSql, [id]);
    return row && accountOf(row);
  }

  async balance(id: string): Promise<number> {
    const [row] = await this.store.read<{ balance: number }>(balanceSql, [id]);
    return Number(row?.balance ?? 0);
  }

  /** The lines of a transfer; empty if its id was never used. */
  transfer(id: string): Promise<{ credit: string; amount: number }[]> {
    return this.store.read(
      'SELECT credit, amount FROM escrow_entries WHERE transfer = ? ORDER BY line',
      [id],
    );
  }

  /** Finds a wallet by id or address. */
  async findWallet(idOrAddress: string): Promise<Wallet | undefined> {
    const column = idOrAddress.startsWith('0x') ? 'address' : 'id';
    const [row] = await this.store.read(
      `SELECT * FROM escrow_accounts WHERE ${column} = ? AND kind = 'wallet'`,
      [column === 'address' ? idOrAddress.toLowerCase() : idOrAddress],
    );
    return row && walletOf(row);
  }

  async wallet(idOrAddress: string): Promise<Wallet> {
    const wallet = await this.findWallet(idOrAddress);
    if (!wallet) throw walletNotFound(idOrAddress);
    return wallet;
  }

  /** Reads the payer, the payees and the pause switch in one query, with only the columns that a payment needs. */
  async paying(payer: string, payees: readonly string[]): Promise<Paying> {
    const rows = await this.store.read(payingSql(payees.length + 1), [payer, ...payees]);
    const paused = rows.some(({ id, status }) => id === worldAccount && status === 'paused');
    const wallet = (id: string) => rows.find((row) => row.id === id && row.kind === 'wallet');
    const spender = wallet(payer);
    if (!spender) throw walletNotFound(payer);
    return {
      spender: spenderOf(spender),
      refuse: (payee) => {
        if (paused) throw pausedError();
        if (!wallet(payee)) throw walletNotFound(payee);
      },
    };
  }

  async walletsOf(owner: string, limit: number): Promise<Wallet[]> {
    const rows = await this.store.read(
      'SELECT * FROM escrow_accounts WHERE owner = ? ORDER BY created_at, id LIMIT ?',
      [owner, limit],
    );
    return rows.map(walletOf);
  }

  async countWallets(owner: string): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_accounts WHERE owner = ?',
      [owner],
    );
    return Number(row!.n);
  }

  /** The owner of an unclaimed wallet is the hash of its claim key. */
  async countUnclaimed(): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM escrow_accounts WHERE owner >= 'claim:' AND owner < 'claim;'`,
    );
    return Number(row!.n);
  }

  /** Deletes unclaimed wallets that never received anything and have no role in a job. */
  forgetUnclaimed(before: number): Step {
    return {
      sql: `DELETE FROM escrow_accounts WHERE owner >= 'claim:' AND owner < 'claim;'
        AND status = 'pending' AND created_at < ? AND balance = 0 AND seq = 0
        AND NOT EXISTS (SELECT 1 FROM escrow_entries WHERE credit = escrow_accounts.id)
        AND NOT EXISTS (SELECT 1 FROM escrow_work WHERE provider = escrow_accounts.id
          OR evaluator = escrow_accounts.id)
        AND NOT EXISTS (SELECT 1 FROM escrow_judges WHERE wallet = escrow_accounts.id)`,
      params: [before],
    };
  }

  insertWallet(wallet: Wallet): Step {
    return {
      sql: `INSERT INTO escrow_accounts (id, kind, owner, name, status, address, policy, secret,
        balance, floor, day, spent, version, seq, head, created_at)
        VALUES (?, 'wallet', ?, ?, ?, ?, ?, ?, 0, 0, NULL, 0, 1, 0, ?, ?)`,
      params: [
        wallet.id,
        wallet.owner,
        wallet.name,
        wallet.status,
        wallet.address,
        JSON.stringify(wallet.policy),
        wallet.secret,
        wallet.head,
        wallet.createdAt,
      ],
      expect: 1,
    };
  }

  updateWallet(before: Wallet, after: Wallet): Step {
    return {
      sql: `UPDATE escrow_accounts SET name = ?, status = ?, policy = ?, owner = ?,
        version = version + 1 WHERE id = ? AND version = ?`,
      params: [
        after.name,
        after.status,
        JSON.stringify(after.policy),
        after.owner,
        before.id,
        before.version,
      ],
      expect: 1,
    };
  }

  /** Counts money that left a wallet through another settlement against its limits. */
  recordSpending(wallet: Wallet, also: { day: string; spent: number }): Step {
    return {
      sql: `UPDATE escrow_accounts SET day = ?, spent = ?, version = version + 1
        WHERE id = ? AND version = ?`,
      params: [also.day, also.spent, wallet.id, wallet.version],
      expect: 1,
    };
  }

  insertEscrowAccount(id: string, at: number): Step {
    return {
      sql: `INSERT INTO escrow_accounts (id, kind, status, balance, floor, spent, version, seq, head,
        created_at) VALUES (?, 'escrow', 'active', 0, 0, 0, 1, 0, ?, ?)`,
      params: [id, genesis(id), at],
      expect: 1,
    };
  }

  /** The pause switch is stored as the status of the account that all credit comes from. */
  async paused(): Promise<boolean> {
    const [row] = await this.store.read<{ status: string }>(
      `SELECT status FROM escrow_accounts WHERE id = 'world'`,
    );
    return row?.status === 'paused';
  }

  setPaused(paused: boolean): Step {
    return {
      sql: `UPDATE escrow_accounts SET status = ?, version = version + 1 WHERE id = 'world'`,
      params: [paused ? 'paused' : 'active'],
      expect: 1,
    };
  }

  /** Stores a key. An expired key, or one that refers to `replaces`, is replaced; any other key is in use. */
  rememberKey(entry: RememberedKey, now: number, replaces = ''): Step {
    return {
      sql: `INSERT INTO escrow_keys (key, body, ref, until) VALUES (?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET body = excluded.body, ref = excluded.ref,
        until = excluded.until WHERE escrow_keys.until <= ? OR escrow_keys.ref = ?`,
      params: [entry.key, entry.body, entry.ref, entry.until, now, replaces],
      expect: 1,
    };
  }

  async remembered(key: string, now: number): Promise<RememberedKey | undefined> {
    const [row] = await this.store.read<RememberedKey>(
      'SELECT key, body, ref, until FROM escrow_keys WHERE key = ? AND until > ?',
      [key, now],
    );
    return row;
  }

  forgetKeys(now: number): Step {
    return { sql: 'DELETE FROM escrow_keys WHERE until <= ?', params: [now] };
  }
}

interface Paying {
  spender: Spender;
  /** Throws if this payee cannot be paid now. */
  refuse(payee: string): void;
}

const accountSql = 'SELECT id, kind, balance, version, seq, head FROM escrow_accounts WHERE id = ?';
const balanceSql = 'SELECT balance FROM escrow_accounts WHERE id = ?';
const payingSql = (wallets: number): string =>
  `SELECT id, kind, status, policy, balance, day, spent, version, seq, head FROM escrow_accounts
    WHERE id IN ('${worldAccount}'${', ?'.repeat(wallets)})`;

const pausedError = (): AppError =>
  new AppError('escrowPaused', 'The operator has paused escrow: payments are not accepted.');

export const walletNotFound = (id: string): AppError =>
  new AppError('walletNotFound', `Wallet ${id} does not exist.`, {
    hint: 'create_wallet creates one; get_wallet lists yours.',
  });
