// Payments between wallets: amount to the payee, a fee on top to the platform, once per idempotency key.
import { hash } from 'node:crypto';
import { AppError } from '../../errors.ts';
import { randomId } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import { share } from './money.ts';
import { spending } from './policy.ts';
import type { Payment, RememberedKey, Spender } from './rows.ts';
import {
  entriesOf,
  feeAccount,
  totalOf,
  type Entry,
  type Line,
  type TransferPlan,
} from './settlement/ledger/book.ts';
import { transferSteps } from './settlement/ledger/store.ts';
import type { EscrowSettings } from './settings.ts';
import { walletNotFound, type EscrowStore } from './store.ts';

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

export interface Paid {
  payment: Payment;
  /** Another call, with the same key or for the same purchase, had made it. */
  existing: boolean;
  /** What the payer has left; unknown for a payment that was there already. */
  balance?: number;
}

interface Waiting {
  request: PayRequest;
  /** Id of the payee. */
  to: string;
  resolve(paid: Paid): void;
  reject(error: unknown): void;
}

/** One of a batch: what its commit will do, or why it is refused. */
type Planned =
  | { waiting: Waiting; payment: Payment; keys: RememberedKey[]; steps: Step[]; spender: Spender }
  | { waiting: Waiting; payment: Payment; keys: RememberedKey[]; refusal: unknown };

const conflictsMax = 200;
/** Payments of one wallet that share a command, at most. */
const batchMax = 16;
const keptMax = 1000;

export class Payments {
  private readonly store: EscrowStore;
  private readonly clock: Clock;
  private readonly settings: EscrowSettings;
  /** Payments of one wallet would only undo one another: they wait in line, and those that wait together go together. */
  private readonly lines = new Map<string, Waiting[]>();
  /** Payers as their last payment left them. Its version fences whatever is decided on one: an old one only costs a try. */
  private readonly kept = new Map<string, Spender>();

  constructor(store: EscrowStore, clock: Clock, settings: EscrowSettings) {
    this.store = store;
    this.clock = clock;
    this.settings = settings;
  }

  feeOf(amount: number): number {
    return share(amount, this.settings.paymentFeeBps);
  }

  async pay(request: PayRequest): Promise<Paid> {
    const isAddress = request.payee.startsWith('0x');
    const to = isAddress ? (await this.store.wallet(request.payee)).id : request.payee;
    if (!to.startsWith('wal_')) throw walletNotFound(to);
    if (request.payer === to) {
      throw new AppError('selfJob', 'A wallet cannot pay itself.', { hint: 'Name another payee.' });
    }
    return new Promise((resolve, reject) => {
      const waiting = { request, to, resolve, reject };
      const line = this.lines.get(request.payer);
      if (line) line.push(waiting);
      else void this.serve(request.payer, [waiting]);
    });
  }

  /** Answers everybody in the line, those who come meanwhile too; never throws. */
  private async serve(payer: string, line: Waiting[]): Promise<void> {
    this.lines.set(payer, line);
    while (line.length > 0) {
      let batch = nextBatch(line);
      try {
        for (let tries = 0; batch.length > 0 && tries < conflictsMax; tries++) {
          const kept = this.kept.get(payer);
          this.kept.delete(payer);
          batch = kept ? await this.payFrom(kept, batch) : await this.payTogether(payer, batch);
        }
        for (const { reject } of batch) reject(tooOften());
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.lines.delete(payer);
  }

  /** One try. Answers those that must be tried again, because something was different from what was read. */
  private async payTogether(payer: string, batch: Waiting[]): Promise<Waiting[]> {
    const payees = [...new Set(batch.map(({ to }) => to))];
    const { spender, refuse } = await this.store.paying(payer, payees);
    const now = this.clock.now();
    return this.commit(this.plan(spender, batch, now, refuse), now);
  }

  /** A try without a look at the payer. Nobody is refused by what may be old: then it is read. */
  private async payFrom(kept: Spender, batch: Waiting[]): Promise<Waiting[]> {
    const now = this.clock.now();
    const planned = this.plan(kept, batch, now, () => undefined);
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
      // Most often somebody's key is in use: they have their answer. The others try again.
      const failed = planned[ownerOf(planned, done.step)]!;
      const answered = await this.answerExisting(failed, now);
      return planned.flatMap((one) => (answered && one === failed ? [] : [one.waiting]));
    }
    const last = planned.findLast((one) => 'steps' in one);
    // Credits come without a new version: only the store knows the balance.
    const left = last ? await this.store.balance(last.payment.payer) : 0;
    if (last) this.keep({ ...last.spender, balance: left });
    for (const one of planned) {
      const { waiting, payment } = one;
      if ('steps' in one) {
        const balance = left + one.spender.balance - last!.spender.balance;
        waiting.resolve({ payment, existing: false, balance });
      } else if (!(await this.answerExisting(one, now))) waiting.reject(one.refusal);
    }
    return [];
  }

  private keep(spender: Spender): void {
    if (this.kept.size >= keptMax) this.kept.clear();
    this.kept.set(spender.id, spender);
  }

  private async answerExisting({ waiting, keys }: Planned, now: number): Promise<boolean> {
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

  /** The same payer, payee, amount and purpose again within the window is a retry, unless the caller says otherwise. */
  private keysOf(request: PayRequest, payment: Payment, now: number): RememberedKey[] {
    const purchase = [payment.payer, payment.payee, payment.amount, payment.kind, request.detail];
    const body = hash('sha256', JSON.stringify(purchase));
    if (request.idempotencyKey !== undefined) {
      const key = `pay:${payment.payer}:${request.idempotencyKey}`;
      return [{ key, body, ref: payment.id, until: now + this.settings.keyWindowMs }];
    }
    if (!isRecognised(request) || this.settings.purchaseWindowMs === 0) return [];
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

/** Only a direct payment is taken for a retry by its fields: each use of a paid resource is a purchase of its own. */
const isRecognised = ({ kind, repeat }: PayRequest): boolean => kind === 'direct' && !repeat;

/** Time first, so that ids of one moment lie together in every index; then 80 random bits, so that nobody guesses one. */
const paymentId = (now: number): string => `pay_${now.toString(32)}${randomId('')}`;

/** From the front of the line; who brings a key that is in the batch already waits for the next one. */
function nextBatch(line: Waiting[]): Waiting[] {
  const keys = new Set<string>();
  const size = line.slice(0, batchMax).findIndex(({ request, to }) => {
    if (request.idempotencyKey === undefined && !isRecognised(request)) return false;
    const key = request.idempotencyKey ?? `${to} ${request.amount} ${request.kind}`;
    const known = keys.has(key);
    keys.add(key);
    return known;
  });
  return line.splice(0, size === -1 ? batchMax : size);
}

function transferOf(payment: Payment, source: Spender): TransferPlan {
  const amount = payment.amount + payment.fee;
  const also = spending(source, { amount, payee: payment.payee, now: payment.at });
  const lines: Line[] = [{ credit: payment.payee, amount: payment.amount, kind: 'payment' }];
  const fees = feeAccount('platform', payment.id);
  if (payment.fee > 0) lines.push({ credit: fees, amount: payment.fee, kind: 'fee' });
  return { id: payment.id, source, lines, at: payment.at, also };
}

/** The wallet as it is once the transfer is done: what the next one of the batch starts from. */
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

const tooOften = (): AppError =>
  new AppError('unavailable', 'The wallet paid too often at once.', { hint: 'Try again.' });

/** Whose step that is. */
function ownerOf(planned: readonly Planned[], step: number): number {
  let end = 0;
  return planned.findIndex((one) => {
    if ('steps' in one) end += one.steps.length;
    return step < end;
  });
}
