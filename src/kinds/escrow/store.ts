// The rows of escrow: accounts and wallets, work, deliverables, payments, remembered keys. Named statements in SQL that
// runs on both databases. Statements that change something are returned as steps and join the caller's transaction.
import { AppError } from '../../errors.ts';
import type { Step, Store, Value } from '../../store/store.ts';
import {
  accountOf,
  paymentOf,
  walletOf,
  workOf,
  type Deliverable,
  type Payment,
  type RememberedKey,
  type Wallet,
} from './rows.ts';
import { genesis, type Account } from './settlement/ledger/book.ts';
import type { Work } from './work.ts';

export class EscrowStore {
  readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async account(id: string): Promise<Account | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_accounts WHERE id = ?', [id]);
    return row && accountOf(row);
  }

  /** What a transfer did, line by line; nothing when its id was never used. */
  transfer(id: string): Promise<{ credit: string; amount: number }[]> {
    return this.store.read(
      'SELECT credit, amount FROM escrow_entries WHERE transfer = ? ORDER BY line',
      [id],
    );
  }

  /** By id or by address. */
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

  /** Both sides of a payment and the operator's switch, in one read. */
  async paying(
    payer: string,
    payee: string,
  ): Promise<{ payer: Wallet; payee: Wallet; paused: boolean }> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_accounts WHERE id IN (?, ?, 'world')`,
      [payer, payee],
    );
    const row = (id: string) => rows.find((one) => one.id === id && one.kind === 'wallet');
    const [from, to] = [row(payer), row(payee)];
    if (!from || !to) throw walletNotFound(from ? payee : payer);
    const paused = rows.some(({ id, status }) => id === 'world' && status === 'paused');
    return { payer: walletOf(from), payee: walletOf(to), paused };
  }

  async walletsOf(owner: string, limit: number): Promise<Wallet[]> {
    const rows = await this.store.read(
      'SELECT * FROM escrow_accounts WHERE owner = ? ORDER BY created_at, id LIMIT ?',
      [owner, limit],
    );
    return rows.map(walletOf);
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

  /** Counts what left a wallet through another settlement against its limits. */
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

  /** The operator's switch is the state of the account that all money comes from. */
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

  async findWork(jobId: string): Promise<Work | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_work WHERE job_id = ?', [jobId]);
    return row && workOf(row);
  }

  async workVersion(jobId: string): Promise<number | undefined> {
    const [row] = await this.store.read<{ version: number }>(
      'SELECT version FROM escrow_work WHERE job_id = ?',
      [jobId],
    );
    return row && Number(row.version);
  }

  async work(jobId: string): Promise<Work> {
    const work = await this.findWork(jobId);
    if (!work) {
      throw new AppError('notFound', `There is no escrow job ${jobId}.`, {
        hint: 'list_work shows the jobs of your wallet.',
      });
    }
    return work;
  }

  insertWork(work: Work): Step {
    return {
      sql: `INSERT INTO escrow_work (job_id, client, provider, evaluator, settlement, external, phase,
        budget, held, deadline_at, next_at, spec, state, version, created_at, updated_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, 1, ?, ?)`,
      params: [
        work.jobId,
        work.client,
        work.provider,
        work.evaluator,
        work.settlement,
        work.external,
        work.phase,
        work.budget,
        work.deadlineAt,
        work.nextAt,
        work.spec,
        JSON.stringify(work.state),
        work.createdAt,
        work.updatedAt,
      ],
      expect: 1,
    };
  }

  updateWork(before: Work, after: Work): Step {
    return {
      sql: `UPDATE escrow_work SET phase = ?, outcome = ?, budget = ?, held = ?, deadline_at = ?, next_at = ?,
        external = ?, state = ?, updated_at = ?, version = version + 1
        WHERE job_id = ? AND version = ?`,
      params: [
        after.phase,
        after.state.outcome,
        after.budget,
        after.held,
        after.deadlineAt,
        after.nextAt,
        after.external,
        JSON.stringify(after.state),
        after.updatedAt,
        before.jobId,
        before.version,
      ],
      expect: 1,
    };
  }

  /** Takes a due job for a while, so that one node evaluates it; a crash lets the next one take it later. */
  lease(jobId: string, nextAt: number, until: number): Step {
    return {
      sql: 'UPDATE escrow_work SET next_at = ? WHERE job_id = ? AND next_at = ?',
      params: [until, jobId, nextAt],
      expect: 1,
    };
  }

  async dueWork(now: number, limit: number): Promise<Work[]> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_work WHERE next_at IS NOT NULL AND next_at <= ?
        ORDER BY next_at LIMIT ?`,
      [now, limit],
    );
    return rows.map(workOf);
  }

  /** Newest first; `before` is the last row of the page before. */
  async listWork(
    filter: { wallet: string; role: 'client' | 'provider' | 'evaluator'; stages?: string[] },
    page: { limit: number; before?: { at: number; jobId: string } },
  ): Promise<Work[]> {
    const where = [`${filter.role} = ?`];
    const params: Value[] = [filter.wallet];
    if (filter.stages) {
      where.push(`phase IN (${filter.stages.map(() => '?').join(', ')})`);
      params.push(...filter.stages);
    }
    if (page.before) {
      where.push('(created_at < ? OR (created_at = ? AND job_id < ?))');
      params.push(page.before.at, page.before.at, page.before.jobId);
    }
    const rows = await this.store.read(
      `SELECT * FROM escrow_work WHERE ${where.join(' AND ')}
        ORDER BY created_at DESC, job_id DESC LIMIT ?`,
      [...params, page.limit],
    );
    return rows.map(workOf);
  }

  async countWork(wallet: string, role: 'client' | 'provider' | 'evaluator'): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM escrow_work WHERE ${role} = ?`,
      [wallet],
    );
    return Number(row!.n);
  }

  /** How the jobs of a wallet ended, by role, phase and outcome. */
  endings(
    wallet: string,
    role: 'client' | 'provider' | 'evaluator',
  ): Promise<{ phase: string; outcome: string; n: number; amount: number; last: number }[]> {
    return this.store.read(
      `SELECT phase, outcome, count(*) AS n, sum(budget) AS amount, max(updated_at) AS last
        FROM escrow_work WHERE ${role} = ? AND outcome IS NOT NULL GROUP BY phase, outcome`,
      [wallet],
    );
  }

  /** Newest ends of a provider's jobs: each job is one source. */
  ended(
    provider: string,
    limit: number,
  ): Promise<{ jobId: string; phase: string; outcome: string; at: number }[]> {
    return this.store.read(
      `SELECT job_id AS "jobId", phase, outcome, updated_at AS at FROM escrow_work
        WHERE provider = ? AND outcome IS NOT NULL ORDER BY updated_at DESC, job_id DESC LIMIT ?`,
      [provider, limit],
    );
  }

  async paymentTotals(payer: string): Promise<{ n: number; amount: number }> {
    const [row] = await this.store.read<{ n: number; amount: number | null }>(
      'SELECT count(*) AS n, sum(amount) AS amount FROM escrow_payments WHERE payer = ?',
      [payer],
    );
    return { n: Number(row!.n), amount: Number(row!.amount ?? 0) };
  }

  /** Deliveries that nobody has decided on since then: the alarm of health. */
  async stuck(since: number): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL AND phase = 'submitted'
        AND updated_at <= ?`,
      [since],
    );
    return Number(row!.n);
  }

  async openWork(): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL',
    );
    return Number(row!.n);
  }

  async backlog(now: number): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL AND next_at <= ?',
      [now],
    );
    return Number(row!.n);
  }

  insertDeliverable(jobId: string, deliverable: Deliverable): Step {
    return {
      sql: `INSERT INTO escrow_deliverables (job_id, n, hash, uri, content, at)
        VALUES (?, ?, ?, ?, ?, ?)`,
      params: [
        jobId,
        deliverable.n,
        deliverable.hash,
        deliverable.uri,
        deliverable.content,
        deliverable.at,
      ],
      expect: 1,
    };
  }

  async deliverable(jobId: string, n: number): Promise<Deliverable | undefined> {
    const [row] = await this.store.read<Deliverable>(
      'SELECT n, hash, uri, content, at FROM escrow_deliverables WHERE job_id = ? AND n = ?',
      [jobId, n],
    );
    return row;
  }

  insertPayment(payment: Payment): Step {
    return {
      sql: `INSERT INTO escrow_payments (id, payer, payee, amount, fee, kind, status, memo, detail, at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      params: [
        payment.id,
        payment.payer,
        payment.payee,
        payment.amount,
        payment.fee,
        payment.kind,
        payment.status,
        payment.memo,
        payment.detail ? JSON.stringify(payment.detail) : null,
        payment.at,
      ],
      expect: 1,
    };
  }

  /** A payment for a protected resource is spent once: `settled` becomes `redeemed`. */
  redeemPayment(id: string, detail: Record<string, unknown>): Step {
    return {
      sql: `UPDATE escrow_payments SET status = 'redeemed', detail = ?
        WHERE id = ? AND status = 'confirmed'`,
      params: [JSON.stringify(detail), id],
      expect: 1,
    };
  }

  async findPayment(id: string): Promise<Payment | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_payments WHERE id = ?', [id]);
    return row && paymentOf(row);
  }

  async listPayments(wallet: string, limit: number, offset: number): Promise<Payment[]> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_payments WHERE payer = ? OR payee = ?
        ORDER BY at DESC, id DESC LIMIT ? OFFSET ?`,
      [wallet, wallet, limit, offset],
    );
    return rows.map(paymentOf);
  }

  /** Remembers a key; one whose window is over, or that stands for `replaces`, is taken over. Else it is in use. */
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

const walletNotFound = (id: string): AppError =>
  new AppError('walletNotFound', `There is no wallet ${id}.`, {
    hint: 'create_wallet makes one; get_wallet lists yours.',
  });
