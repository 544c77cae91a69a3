// Payments between wallets: the payee gets the amount, the platform gets a fee on top, once per idempotency key.
import { hash } from 'node:crypto';
import { AppError } from '../../errors.ts';
import { randomId } from '../../runtime/id.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import { share } from './money.ts';
import { spending } from './policy.ts';
import type { Payment, RememberedKey, Spender } from './store/rows.ts';
import {
  entriesOf,
  feeAccount,
  totalOf,
  type Entry,
  type Line,
  type TransferPlan,
} from './settlement/ledger/book.ts';
import { transferSteps } from './store/entries.ts';
import type { EscrowSettings } from './settings.ts';
import { walletNotFound, type EscrowStore } from './store/store.ts';

interface PayRequest {
  payer: string;
  payee: string;
  amount: number;
  memo?: string;
  kind: 'direct' | 'x402';
  detail?: Record<string, unknown>;
  idempotencyKey?: string;
  /** True: a second, separate payment of the same amount to the same payee. */
  repeat?: boolean;
}

interface PayResult {
  payment: Payment;
  /** True if another call with the same key, or for the same purchase, already made this payment. */
  existing: boolean;
  /** The payer's remaining balance; undefined for an existing payment. */
  balance?: number;
}

interface Waiting {
  request: PayRequest;
  /** Id of the payee. */
  to: string;
  resolve(paid: PayResult): void;
  reject(error: unknown): void;
}

/** One payment of a batch: its steps, or the reason for refusing it. */
type Planned =
  | { waiting: Waiting; payment: Payment; keys: RememberedKey[]; steps: Step[]; spender: Spender }
  | { waiting: Waiting; payment: Payment; keys: RememberedKey[]; refusal: unknown };

const maxConflicts = 200;
/** Largest number of one wallet's payments that share a transaction. */
const maxBatch = 16;
const maxCachedPayers = 1000;

export class Payments {
  private readonly store: EscrowStore;
  private readonly clock: Clock;
  private readonly settings: EscrowSettings;
  /** Concurrent payments of one wallet would only conflict, so they queue, and queued payments are committed in batches. */
  private readonly queues = new Map<string, Waiting[]>();
  /**
   * Payers as their last payment left them. Every commit checks the version, so a stale entry costs only a retry.
   */
  private readonly cachedPayers = new Map<string, Spender>();

  constructor(store: EscrowStore, clock: Clock, settings: EscrowSettings) {
    this.store = store;
    this.clock = clock;
    this.settings = settings;
  }

  feeOf(amount: number): number {
    return share(amount, this.settings.paymentFeeBps);
  }

  async pay(request: PayRequest): Promise<PayResult> {
    const isAddress = request.payee.startsWith('0x');
    const to = isAddress ? (await this.store.wallet(request.payee)).id : request.payee;
    if (!to.startsWith('wal_')) throw walletNotFound(to);
    if (request.payer === to) {
      throw new AppError('selfJob', 'A wallet cannot pay itself.', { hint: 'Name another payee.' });
    }
    return new Promise((resolve, reject) => {
      const waiting = { request, to, resolve, reject };
      const queue = this.queues.get(request.payer);
      if (queue) queue.push(waiting);
      else void this.drainQueue(request.payer, [waiting]);
    });
  }

  /** Completes every payment in the queue, including those that arrive meanwhile; never throws. */
  private async drainQueue(payer: string, queue: Waiting[]): Promise<void> {
    this.queues.set(payer, queue);
    while (queue.length > 0) {
      let batch = nextBatch(queue);
      try {
        for (let tries = 0; batch.length > 0 && tries < maxConflicts; tries++) {
          const cached = this.cachedPayers.get(payer);
          this.cachedPayers.delete(payer);
          batch = cached ? await this.payFrom(cached, batch) : await this.payTogether(payer, batch);
        }
        for (const { reject } of batch) reject(conflictError());
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.queues.delete(payer);
  }

  /** One attempt. Returns the payments to try again because something changed after it was read. */
  private async payTogether(payer: string, batch: Waiting[]): Promise<Waiting[]> {
    const payees = [...new Set(batch.map(({ to }) => to))];
    const { spender, refuse } = await this.store.paying(payer, payees);
    const now = this.clock.now();
    return this.commit(this.plan(spender, batch, now, refuse), now);
  }

  /** An attempt from the cached payer. Cached data refuses nobody: on doubt, the payer is read from the store. */
  private async payFrom(cached: Spender, batch: Waiting[]): Promise<Waiting[]> {
    const now = this.clock.now();
    const planned = this.plan(cached, batch, now, () => undefined);
    return planned.some((one) => 'refusal' in one) ? batch : this.commit(planned, now);
  }

  private plan(
    present: Spender,
    batch: Waiting[],
    now: number,
    refuse: (payee: string) => void,
  ): Planned[] {
    let spender = present;
    return batch.map((waiting): Planned => {
      const payment = this.paymentOf(waiting, now);
      const keys = this.keysOf(waiting.request, payment, now);
      try {
        refuse(waiting.to);
        const transfer = transferOf(payment, spender);
        const entries = entriesOf(transfer);
        spender = spentBy(spender, transfer, entries);
        const steps = [
          ...keys.map((key) => this.store.rememberKey(key, now)),
          ...transferSteps(transfer, entries),
          ...this.store.payments.insertPayment(payment),
        ];
        return { waiting, payment, keys, steps, spender };
      } catch (refusal) {
        return { waiting, payment, keys, refusal };
      }
    });
  }

  private async commit(planned: Planned[], now: number): Promise<Waiting[]> {
    const steps = planned.flatMap((one) => ('steps' in one ? one.steps : []));
    const done = steps.length > 0 ? await this.store.store.commit(steps) : undefined;
    if (done && !done.applied) {
      // Usually a key is already in use, and that payment gets its existing result. The others try again.
      const failed = planned[ownerOf(planned, done.step)]!;
      const answered = await this.findExisting(failed, now);
      return planned.flatMap((one) => (answered && one === failed ? [] : [one.waiting]));
    }
    const last = planned.findLast((one) => 'steps' in one);
    // Credits do not change the version: only the store knows the balance.
    const left = last ? await this.store.balance(last.payment.payer) : 0;
    if (last) this.cachePayer({ ...last.spender, balance: left });
    for (const one of planned) {
      const { waiting, payment } = one;
      if ('steps' in one) {
        const balance = left + one.spender.balance - last!.spender.balance;
        waiting.resolve({ payment, existing: false, balance });
      } else if (!(await this.findExisting(one, now))) waiting.reject(one.refusal);
    }
    return [];
  }

  private cachePayer(spender: Spender): void {
    if (this.cachedPayers.size >= maxCachedPayers) this.cachedPayers.clear();
    this.cachedPayers.set(spender.id, spender);
  }

  private async findExisting({ waiting, keys }: Planned, now: number): Promise<boolean> {
    try {
      const payment = await this.existing(keys, now);
      if (payment) waiting.resolve({ payment, existing: true });
      return payment !== undefined;
    } catch (error) {
      waiting.reject(error);
      return true;
    }
  }

  private paymentOf({ request, to }: Waiting, now: number): Payment {
    return {
      id: paymentId(now),
      payer: request.payer,
      payee: to,
      amount: request.amount,
      fee: this.feeOf(request.amount),
      kind: request.kind,
      status: 'confirmed',
      memo: request.memo ?? null,
      detail: request.detail ?? null,
      at: now,
    };
  }

  /** Without a key, the same payment with the same memo within the window is a retry, unless the caller sets `repeat`. */
  private keysOf(request: PayRequest, payment: Payment, now: number): RememberedKey[] {
    const purchase = [payment.payer, payment.payee, payment.amount, payment.kind, request.detail];
    const body = hash('sha256', JSON.stringify(purchase));
    if (request.idempotencyKey !== undefined) {
      const key = `pay:${payment.payer}:${request.idempotencyKey}`;
      return [{ key, body, ref: payment.id, until: now + this.settings.keyWindowMs }];
    }
    if (!isRecognised(request) || this.settings.purchaseWindowMs === 0) return [];
    const until = now + this.settings.purchaseWindowMs;
    const described = hash('sha256', JSON.stringify([...purchase, payment.memo]));
    return [{ key: `payment:${described}`, body: described, ref: payment.id, until }];
  }

  private async existing(keys: RememberedKey[], now: number): Promise<Payment | undefined> {
    for (const key of keys) {
      const found = await this.store.remembered(key.key, now);
      if (!found) continue;
      if (found.body === key.body) return this.store.payments.findPayment(found.ref);
      throw new AppError(
        'idempotencyConflict',
        `This idempotency key belongs to another payment (${found.ref}).`,
        { hint: 'Use a new key for a new payment.', data: { paymentId: found.ref } },
      );
    }
    return undefined;
  }
}

/** Only direct payments are recognised as retries by their fields: each use of a paid resource is a separate purchase. */
const isRecognised = ({ kind, repeat }: PayRequest): boolean => kind === 'direct' && !repeat;

/** Starts with the time, so that neighbouring ids share index pages, and ends with 80 random bits, so that none can be guessed. */
const paymentId = (now: number): string => `pay_${now.toString(32)}${randomId('')}`;

/** Takes payments from the head of the queue. A key that is already in the batch waits for the next one. */
function nextBatch(queue: Waiting[]): Waiting[] {
  const keys = new Set<string>();
  const size = queue.slice(0, maxBatch).findIndex(({ request, to }) => {
    if (request.idempotencyKey === undefined && !isRecognised(request)) return false;
    const { amount, kind, memo = '' } = request;
    const key = request.idempotencyKey ?? `${to} ${amount} ${kind} ${memo}`;
    const known = keys.has(key);
    keys.add(key);
    return known;
  });
  return queue.splice(0, size === -1 ? maxBatch : size);
}

function transferOf(payment: Payment, source: Spender): TransferPlan {
  const amount = payment.amount + payment.fee;
  const also = spending(source, { amount, payee: payment.payee, now: payment.at });
  const lines: Line[] = [{ credit: payment.payee, amount: payment.amount, kind: 'payment' }];
  const fees = feeAccount('platform', payment.id);
  if (payment.fee > 0) lines.push({ credit: fees, amount: payment.fee, kind: 'fee' });
  return { id: payment.id, source, lines, at: payment.at, also };
}

/** The wallet after the transfer: the starting point for the next payment of the batch. */
function spentBy(before: Spender, transfer: TransferPlan, entries: readonly Entry[]): Spender {
  const last = entries.at(-1)!;
  return {
    ...before,
    ...transfer.also,
    balance: before.balance - totalOf(transfer.lines),
    version: before.version + 1,
    seq: last.seq,
    head: last.hash,
  };
}

const conflictError = (): AppError =>
  new AppError('unavailable', 'Too many concurrent payments from this wallet.', {
    hint: 'Try again.',
  });

/** Index of the payment that this step belongs to. */
function ownerOf(planned: readonly Planned[], step: number): number {
  let end = 0;
  return planned.findIndex((one) => {
    if ('steps' in one) end += one.steps.length;
    return step < end;
  });
}
