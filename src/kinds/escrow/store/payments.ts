// SQL for payments between wallets, for both databases.
import type { Step, Store } from '../../../store/store.ts';
import { paymentOf, type Payment } from './rows.ts';

export class PaymentStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** Inserts the payment and lists it for both wallets. */
  insertPayment(payment: Payment): Step[] {
    const { id, payer, payee, at } = payment;
    const sides: Step = { sql: sidesSql, params: [payer, at, id, payee, at, id], expect: 2 };
    return [this.insertRow(payment), sides];
  }

  private insertRow(payment: Payment): Step {
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

  /** A payment for a protected resource is redeemed once: `confirmed` becomes `redeemed`. */
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
      `SELECT p.* FROM escrow_payment_sides s JOIN escrow_payments p ON p.id = s.id
        WHERE s.wallet = ? ORDER BY s.at DESC, s.id DESC LIMIT ? OFFSET ?`,
      [wallet, limit, offset],
    );
    return rows.map(paymentOf);
  }

  /** Counts payments to wallets of other owners. */
  async paymentTotals(payer: string): Promise<{ n: number; amount: number; last: number }> {
    const [row] = await this.store.read<Record<string, number | null>>(
      `SELECT count(*) AS n, sum(p.amount) AS amount, max(s.at) AS last ${paidSql}`,
      [payer],
    );
    const of = (name: string) => Number(row![name] ?? 0);
    return { n: of('n'), amount: of('amount'), last: of('last') };
  }

  /** Newest first. */
  paidBy(payer: string, limit: number): Promise<{ id: string; at: number }[]> {
    return this.store.read<{ id: string; at: number }>(
      `SELECT s.id AS id, s.at AS at ${paidSql} ORDER BY s.at DESC, s.id DESC LIMIT ?`,
      [payer, limit],
    );
  }
}

/** An unclaimed wallet has no owner: anybody can open one. */
const paidSql = `FROM escrow_payment_sides s JOIN escrow_payments p ON p.id = s.id
  JOIN escrow_accounts m ON m.id = p.payer JOIN escrow_accounts o ON o.id = p.payee
  WHERE s.wallet = ? AND p.payer = s.wallet AND m.owner <> o.owner AND o.status <> 'pending'`;
const sidesSql = 'INSERT INTO escrow_payment_sides (wallet, at, id) VALUES (?, ?, ?), (?, ?, ?)';
