// Payments between wallets: amount to the payee, a fee on top to the platform, once per idempotency key.
import { hash } from 'node:crypto';
import { AppError } from '../../errors.ts';
import { randomId } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import { share } from './money.ts';
import { spending } from './policy.ts';
import type { Payment, RememberedKey, Wallet } from './rows.ts';
import { feeAccount, type Line } from './settlement/ledger/book.ts';
import { transferSteps } from './settlement/ledger/store.ts';
import type { EscrowSettings } from './settings.ts';
import type { EscrowStore } from './store.ts';

export interface PayRequest {
  payer: string;
  payee: string;
  amount: number;
  memo?: string;
  kind: 'direct' | 'x402';
  detail?: Record<string, unknown>;
  idempotencyKey?: string;
  /** A second, separate payment of the same amount to the same payee. */
  repeat?: boolean;
}

const conflictsMax = 200;

export class Payments {
  private readonly store: EscrowStore;
  private readonly clock: Clock;
  private readonly settings: EscrowSettings;
  /** One payment of a wallet at a time in this process: they would only undo one another. */
  private readonly turns = new Map<string, Promise<unknown>>();

  constructor(store: EscrowStore, clock: Clock, settings: EscrowSettings) {
    this.store = store;
    this.clock = clock;
    this.settings = settings;
  }

  feeOf(amount: number): number {
    return share(amount, this.settings.paymentFeeBps);
  }

  async pay(request: PayRequest): Promise<{ payment: Payment; existing: boolean }> {
    const before = this.turns.get(request.payer) ?? Promise.resolve();
    const turn = before.then(() => this.payNow(request));
    const settled = turn.catch(() => undefined);
    this.turns.set(request.payer, settled);
    try {
      return await turn;
    } finally {
      if (this.turns.get(request.payer) === settled) this.turns.delete(request.payer);
    }
  }

  private async payNow(request: PayRequest): Promise<{ payment: Payment; existing: boolean }> {
    const isAddress = request.payee.startsWith('0x');
    const to = isAddress ? (await this.store.wallet(request.payee)).id : request.payee;
    if (request.payer === to) {
      throw new AppError('selfJob', 'A wallet cannot pay itself.', { hint: 'Name another payee.' });
    }
    for (let tries = 0; tries < conflictsMax; tries++) {
      const now = this.clock.now();
      const { payer, payee, paused } = await this.store.paying(request.payer, to);
      const payment = this.paymentOf(request, payer, payee, now);
      const keys = this.keysOf(request, payment, now);
      const existing = await this.existing(keys, now);
      if (existing) return { payment: existing, existing: true };
      if (paused) throw pausedError();
      if (await this.tryPay(payment, payer, keys, now)) return { payment, existing: false };
    }
    throw new AppError('unavailable', 'The wallet paid too often at once.', { hint: 'Try again.' });
  }

  private async tryPay(
    payment: Payment,
    payer: Wallet,
    keys: RememberedKey[],
    now: number,
  ): Promise<boolean> {
    const amount = payment.amount + payment.fee;
    const also = spending(payer, { amount, payee: payment.payee, now });
    const lines: Line[] = [{ credit: payment.payee, amount: payment.amount, kind: 'payment' }];
    const fees = feeAccount('platform', payment.id);
    if (payment.fee > 0) lines.push({ credit: fees, amount: payment.fee, kind: 'fee' });
    const { applied } = await this.store.store.commit([
      ...keys.map((key) => this.store.rememberKey(key, now)),
      ...transferSteps({ id: payment.id, source: payer, lines, at: now, also }),
      this.store.payments.insertPayment(payment),
    ]);
    return applied;
  }

  private paymentOf(request: PayRequest, payer: Wallet, payee: Wallet, now: number): Payment {
    return {
      id: paymentId(now),
      payer: payer.id,
      payee: payee.id,
      amount: request.amount,
      fee: this.feeOf(request.amount),
      kind: request.kind,
      status: 'confirmed',
      memo: request.memo ?? null,
      detail: request.detail ?? null,
      at: now,
    };
  }

  /** The same payer, payee, amount and purpose again within the window is a retry, unless the caller says otherwise. */
  private keysOf(request: PayRequest, payment: Payment, now: number): RememberedKey[] {
    const body = hash(
      'sha256',
      JSON.stringify([payment.payer, payment.payee, payment.amount, payment.kind, request.detail]),
    );
    if (request.idempotencyKey !== undefined) {
      const key = `pay:${payment.payer}:${request.idempotencyKey}`;
      return [{ key, body, ref: payment.id, until: now + this.settings.keyWindowMs }];
    }
    if (request.repeat || this.settings.purchaseWindowMs === 0) return [];
    const until = now + this.settings.purchaseWindowMs;
    return [{ key: `payment:${body}`, body, ref: payment.id, until }];
  }

  private async existing(keys: RememberedKey[], now: number): Promise<Payment | undefined> {
    for (const key of keys) {
      const found = await this.store.remembered(key.key, now);
      if (!found) continue;
      if (found.body === key.body) return this.store.payments.findPayment(found.ref);
      throw new AppError(
        'idempotencyConflict',
        `This idempotency key stands for another payment (${found.ref}).`,
        { hint: 'Use a new key for a new payment.', data: { paymentId: found.ref } },
      );
    }
    return undefined;
  }
}

/** Time first, so that ids of one moment lie together in every index; then 80 random bits, so that nobody guesses one. */
const paymentId = (now: number): string => `pay_${now.toString(32)}${randomId('')}`;

const pausedError = (): AppError =>
  new AppError('escrowPaused', 'The operator has paused the escrow: no payments now.');
