// x402 with internal credit: pay for an answer that asks for payment (402), and ask for payment before a resource is given.
// A payment names the resource and is redeemed once. Header names of both x402 versions are read and written.
import { timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { formatUnits, parseMicro } from './money.ts';
import type { Payments } from './payments.ts';
import type { Payment } from './rows.ts';
import type { EscrowStore } from './store.ts';

const x402Network = 'errand:ledger';
const x402Asset = 'CREDIT';

/** One guarded request with headers; the body is cut off at bytesMax by refusing more. */
export type Fetch = (
  url: string,
  request: { headers: Record<string, string>; timeoutMs: number; bytesMax: number },
) => Promise<{ status: number; headers: Record<string, string>; body: Buffer }>;

const requirement = z.looseObject({
  scheme: z.string(),
  network: z.string(),
  maxAmountRequired: z.string().optional(),
  amount: z.string().optional(),
  payTo: z.string(),
  resource: z.string().optional(),
});
const requirements = z.looseObject({ accepts: z.array(requirement).max(50) });

const headerSchema = z.looseObject({
  payload: z.looseObject({ paymentId: z.string().max(60), token: z.string().max(100) }),
});

const timeoutMs = 15_000;
const bytesMax = 200_000;

export interface PayForRequest {
  payer: string;
  url: string;
  /** Micro-units that may be spent at most. */
  amountMax: number;
  idempotencyKey?: string | undefined;
}

export interface Charge {
  resource: string;
  amount: number;
  payTo: string;
  header?: string | undefined;
}

export type ChargeAnswer =
  | { paid: false; status: 402; headers: Record<string, string>; body: unknown }
  | { paid: true; status: 200; headers: Record<string, string>; paymentId: string; from: string };

export class X402 {
  private readonly payments: Payments;
  private readonly store: EscrowStore;
  private readonly fetch: Fetch;
  private readonly sign: (text: string) => string;

  constructor(parts: {
    payments: Payments;
    store: EscrowStore;
    fetch: Fetch;
    sign: (text: string) => string;
  }) {
    this.payments = parts.payments;
    this.store = parts.store;
    this.fetch = parts.fetch;
    this.sign = parts.sign;
  }

  /** Asks for the resource, pays once if it asks for payment within the limit, and asks again. */
  async payFor(request: PayForRequest) {
    const first = await this.fetch(request.url, { headers: {}, timeoutMs, bytesMax });
    if (first.status !== 402) return { paid: false as const, ...answerOf(first) };
    const wanted = this.choose(first);
    const amount = parseMicro(wanted.maxAmountRequired ?? wanted.amount, 'the price asked for');
    if (amount > request.amountMax) {
      throw new AppError(
        'maxAmountExceeded',
        `The resource costs ${formatUnits(amount)}, more than the ${formatUnits(request.amountMax)} allowed.`,
        {
          hint: 'Nothing was paid. Raise maxAmount if it is worth it.',
          data: { price: String(amount) },
        },
      );
    }
    const { payment, header, existing } = await this.authorize({
      ...request,
      amount,
      recipient: wanted.payTo,
      resource: wanted.resource ?? request.url,
    });
    const headers = { 'x-payment': header, 'payment-signature': header };
    const second = await this.fetch(request.url, { headers, timeoutMs, bytesMax });
    return { paid: true as const, payment, header, existing, ...answerOf(second) };
  }

  /** Pays for a resource and gives the header that proves it, for callers that make the request themselves. */
  async authorize(request: {
    payer: string;
    recipient: string;
    amount: number;
    resource: string;
    idempotencyKey?: string | undefined;
  }): Promise<{ payment: Payment; header: string; existing: boolean }> {
    const { payment, existing } = await this.payments.pay({
      payer: request.payer,
      payee: request.recipient,
      amount: request.amount,
      kind: 'x402',
      detail: { resource: request.resource },
      ...(request.idempotencyKey === undefined ? {} : { idempotencyKey: request.idempotencyKey }),
    });
    return { payment, header: this.headerOf(payment), existing };
  }

  /** For whoever protects a resource: the 402 to send, or that it is paid for (which redeems the payment). */
  async charge(charge: Charge): Promise<ChargeAnswer> {
    const payTo = (await this.store.wallet(charge.payTo)).id;
    if (charge.header === undefined) return this.required(charge, payTo, 'payment required');
    const payment = await this.proven(charge.header);
    if (!payment) return this.required(charge, payTo, 'the payment header proves no payment');
    const problem =
      (payment.payee !== payTo && 'the payment went to somebody else') ||
      (payment.amount < charge.amount && 'the payment is too small') ||
      (payment.detail?.resource !== charge.resource && 'the payment is for another resource') ||
      (payment.status !== 'confirmed' && 'the payment was used already');
    if (problem) return this.required(charge, payTo, problem);
    const detail = { ...payment.detail, redeemed: true };
    const { applied } = await this.store.store.commit([
      this.store.payments.redeemPayment(payment.id, detail),
    ]);
    if (!applied) return this.required(charge, payTo, 'the payment was used already');
    const receipt = {
      success: true,
      transaction: payment.id,
      network: x402Network,
      payer: payment.payer,
    };
    const encoded = encode(receipt);
    return {
      paid: true,
      status: 200,
      headers: { 'x-payment-response': encoded, 'payment-response': encoded },
      paymentId: payment.id,
      from: payment.payer,
    };
  }

  private required(charge: Charge, payTo: string, error: string): ChargeAnswer {
    const body = {
      x402Version: 1,
      error,
      accepts: [
        {
          scheme: 'exact',
          network: x402Network,
          maxAmountRequired: String(charge.amount),
          amount: String(charge.amount),
          asset: x402Asset,
          payTo,
          resource: charge.resource,
          maxTimeoutSeconds: 60,
        },
      ],
    };
    const headers = { 'payment-required': encode({ ...body, x402Version: 2 }) };
    return { paid: false, status: 402, headers, body };
  }

  private choose(answer: { headers: Record<string, string>; body: Buffer }) {
    const header = answer.headers['payment-required'];
    const parsed = requirements.safeParse(
      header === undefined ? parseJson(answer.body.toString('utf8')) : decode(header),
    );
    const wanted = parsed.data?.accepts.find(({ network }) => network === x402Network);
    if (wanted) return wanted;
    throw new AppError(
      'unsupported',
      'The resource asks for a payment that this wallet cannot make.',
      {
        hint: `This server pays on network ${x402Network}; the resource must accept that.`,
      },
    );
  }

  private headerOf(payment: Payment): string {
    return encode({
      x402Version: 1,
      scheme: 'exact',
      network: x402Network,
      payload: { paymentId: payment.id, token: this.sign(payment.id) },
    });
  }

  /** The public id alone proves nothing: the token shows that the header came from this server. */
  private async proven(header: string): Promise<Payment | undefined> {
    const parsed = headerSchema.safeParse(decode(header));
    if (!parsed.success) return undefined;
    const { paymentId, token } = parsed.data.payload;
    const wanted = Buffer.from(this.sign(paymentId));
    const given = Buffer.from(token);
    if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) return undefined;
    const payment = await this.store.payments.findPayment(paymentId);
    return payment?.kind === 'x402' ? payment : undefined;
  }
}

function answerOf(answer: { status: number; headers: Record<string, string>; body: Buffer }) {
  return {
    status: answer.status,
    contentType: answer.headers['content-type'] ?? '',
    body: answer.body.toString('utf8'),
  };
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64');
const decode = (text: string): unknown => parseJson(Buffer.from(text, 'base64').toString('utf8'));

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
