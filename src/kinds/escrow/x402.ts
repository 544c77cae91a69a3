// x402 with internal credit: paying for a response that requires payment (402), and requiring payment for a resource.
// A payment names its resource and is redeemed once. Header names of both x402 versions are supported.
import { timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { formatUnits, parseMicro } from './money.ts';
import type { Payments } from './payments.ts';
import type { Payment } from './store/rows.ts';
import type { EscrowStore } from './store/store.ts';
import { walletIdSchema } from './terms.ts';

const x402Network = 'errand:ledger';
const x402Asset = 'CREDIT';

/** One guarded request with headers; it fails if the body exceeds maxBytes. */
export type Fetch = (
  url: string,
  request: { headers: Record<string, string>; timeoutMs: number; maxBytes: number },
) => Promise<{ status: number; headers: Record<string, string>; body: Buffer }>;

const requirement = z.looseObject({
  scheme: z.string(),
  network: z.string(),
  maxAmountRequired: z.string().optional(),
  amount: z.string().optional(),
  payTo: z.string(),
  resource: z.string().max(2000).optional(),
});
const requirements = z.looseObject({ accepts: z.array(requirement).max(50) });

const headerSchema = z.looseObject({
  payload: z.looseObject({ paymentId: z.string().max(60), token: z.string().max(100) }),
});

const timeoutMs = 15_000;
const maxBytes = 200_000;

interface PayForRequest {
  payer: string;
  url: string;
  /** Highest amount to spend, in micro-units. */
  maxAmount: number;
  idempotencyKey?: string | undefined;
}

interface Charge {
  resource: string;
  amount: number;
  payTo: string;
  header?: string | undefined;
}

type ChargeResult =
  | { paid: false; status: 402; headers: Record<string, string>; body: unknown }
  | { paid: true; status: 200; headers: Record<string, string>; paymentId: string; from: string };

export class X402 {
  private readonly payments: Payments;
  private readonly store: EscrowStore;
  private readonly fetch: Fetch;
  private readonly sign: (text: string) => string;

  constructor(deps: {
    payments: Payments;
    store: EscrowStore;
    fetch: Fetch;
    sign: (text: string) => string;
  }) {
    this.payments = deps.payments;
    this.store = deps.store;
    this.fetch = deps.fetch;
    this.sign = deps.sign;
  }

  /** Requests the resource, pays once if the price is within the limit, and repeats the request. */
  async payFor(request: PayForRequest) {
    const first = await this.fetch(request.url, { headers: {}, timeoutMs, maxBytes });
    if (first.status !== 402) return { paid: false as const, ...toResponse(first) };
    const wanted = this.choose(first);
    const amount = parseMicro(wanted.maxAmountRequired ?? wanted.amount, 'the requested price');
    if (amount > request.maxAmount) {
      throw new AppError(
        'maxAmountExceeded',
        `The resource costs ${formatUnits(amount)}, more than your limit of ${formatUnits(request.maxAmount)}.`,
        {
          hint: 'Nothing was paid. Raise maxAmount to buy it.',
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
    const second = await this.fetch(request.url, { headers, timeoutMs, maxBytes });
    return { paid: true as const, payment, header, existing, ...toResponse(second) };
  }

  /** Pays for a resource and returns the header that proves it, for callers that send the request themselves. */
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

  /** For the server of a protected resource: returns the 402 to send, or redeems the payment. */
  async charge(charge: Charge): Promise<ChargeResult> {
    const payTo = (await this.store.wallet(charge.payTo)).id;
    if (charge.header === undefined) return this.paymentRequired(charge, payTo, 'payment required');
    const payment = await this.verifiedPayment(charge.header);
    if (!payment) return this.paymentRequired(charge, payTo, 'the payment header is not valid');
    const problem =
      (payment.payee !== payTo && 'the payment went to another wallet') ||
      (payment.amount < charge.amount && 'the payment is too small') ||
      (payment.detail?.resource !== charge.resource && 'the payment is for another resource') ||
      (payment.status !== 'confirmed' && 'the payment was already used');
    if (problem) return this.paymentRequired(charge, payTo, problem);
    const detail = { ...payment.detail, redeemed: true };
    const { applied } = await this.store.store.commit([
      this.store.payments.redeemPayment(payment.id, detail),
    ]);
    if (!applied) return this.paymentRequired(charge, payTo, 'the payment was already used');
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

  private paymentRequired(charge: Charge, payTo: string, error: string): ChargeResult {
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
    const wanted = parsed.data?.accepts.find(
      ({ network, payTo }) => network === x402Network && walletIdSchema.safeParse(payTo).success,
    );
    if (wanted) return wanted;
    throw new AppError(
      'unsupported',
      'The resource requires a payment that this wallet cannot make.',
      {
        hint: `This server pays only wallets on network ${x402Network}; the resource must accept it.`,
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

  /** The payment id is public and proves nothing: the token proves that this server issued the header. */
  private async verifiedPayment(header: string): Promise<Payment | undefined> {
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

function toResponse(answer: { status: number; headers: Record<string, string>; body: Buffer }) {
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
